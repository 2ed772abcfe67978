#include "./new-inl.h"
#include "./new-forward.cuh"

static const auto registered = mxnet::Registered::on_gpu = mxnet::op::timed<mxnet::gpu>;
