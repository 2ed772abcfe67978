#include "./new-inl.h"
#include "./new-forward.cuh"

static const mxnet::Registered registered(mxnet::Context::kGPU, mxnet::op::timed<mxnet::gpu>);
