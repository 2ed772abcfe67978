#include "./new-inl.h"
#include "./new-forward.h"

static const auto registered = mxnet::Registered::on_cpu = mxnet::op::timed<mxnet::cpu>;
