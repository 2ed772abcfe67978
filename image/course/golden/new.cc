#include "./new-inl.h"
#include "./new-forward.h"

static const mxnet::Registered registered(mxnet::Context::kCPU, mxnet::op::timed<mxnet::cpu>);
