// MXNet's operator `New`, the course's name for one's own convolution.
//
// An external operator library for MXNet 1.7 to 1.9, which loads what is registered at
// the end of this file. It is linked with lib_api.cc of the installed MXNet.
#include "forward.h"

#include <mxnet/lib_api.h>

#include <cstdio>
#include <exception>

namespace {

using namespace mxnet::ext;
using rai::say;
using rai::Shape;

using Attributes = std::unordered_map<std::string, std::string>;
using Sizes = std::vector<unsigned int>;

constexpr int UNKNOWN = -1; // a type that MXNet has not inferred yet
constexpr int FIRST_VERSION = 10700;

MXReturnValue refuse(const std::string &why) {
    say(why);
    MX_ERROR_MSG << why;
    return MX_FAIL;
}

unsigned int number(const Attributes &attributes, const char *name) {
    const auto found = attributes.find(name);
    unsigned int value = 0;
    if (found != attributes.end()) {
        std::sscanf(found->second.c_str(), "%u", &value);
    }
    return value;
}

// Parse "(5, 5)"; 0 if it is invalid or not square.
unsigned int side(const Attributes &attributes) {
    const auto found = attributes.find("kernel");
    unsigned int rows = 0, columns = 0;
    if (found != attributes.end()) {
        std::sscanf(found->second.c_str(), " %*1[([]%u ,%u", &rows, &columns);
    }
    return rows == columns ? rows : 0;
}

MXReturnValue parse_attributes(const Attributes &attributes, int *inputs,
                               int *outputs) {
    if (side(attributes) == 0) {
        return refuse("operator New: `kernel` must be square, such as (5, 5)");
    }
    if (number(attributes, "num_filter") == 0) {
        return refuse("operator New: `num_filter` must be positive");
    }
    *inputs = 2; // data and weight
    *outputs = 1;
    return MX_SUCCESS;
}

MXReturnValue infer_type(const Attributes &, std::vector<int> *in,
                         std::vector<int> *out) {
    for (int &type : *in) {
        if (type != UNKNOWN && type != kFloat32) {
            return refuse("operator New: data and weight must be float32");
        }
        type = kFloat32;
    }
    out->at(0) = kFloat32;
    return MX_SUCCESS;
}

MXReturnValue infer_shape(const Attributes &attributes, std::vector<Sizes> *in,
                          std::vector<Sizes> *out) {
    const unsigned int K = side(attributes), M = number(attributes, "num_filter");
    const Sizes &x = in->at(0);
    if (x.size() != 4) {
        return refuse("operator New: data must be images x channels x rows x columns");
    }
    if (x[2] < K || x[3] < K) {
        return refuse("operator New: the weights are larger than the image");
    }
    const Sizes expected{M, x[1], K, K};
    Sizes &k = in->at(1);
    if (!k.empty() && k != expected) {
        return refuse("operator New: weight must be maps x channels x "
                      "kernel x kernel");
    }
    k = expected;
    out->at(0) = {x[0], M, x[2] - K + 1, x[3] - K + 1};
    return MX_SUCCESS;
}

MXReturnValue compute(const Attributes &, std::vector<MXTensor> *in,
                      std::vector<MXTensor> *out, const OpResource &) {
    MXTensor &x = in->at(0), &k = in->at(1), &y = out->at(0);
    const auto size = [](const MXTensor &t, int axis) { return int(t.shape.at(axis)); };
    const Shape shape{size(x, 0), size(k, 0), size(x, 1),
                      size(x, 2), size(x, 3), size(k, 2)};
    try {
        rai::forward(y.data<float>(), x.data<float>(), k.data<float>(), shape);
    } catch (const std::exception &error) {
        return refuse(error.what());
    }
    return MX_SUCCESS;
}

// MXNet requires a backward function of every operator to bind a graph for training.
MXReturnValue refuse_backward(const Attributes &, std::vector<MXTensor> *,
                              std::vector<MXTensor> *, const OpResource &) {
    return refuse("operator New: it has no gradient; train with Convolution");
}

} // namespace

REGISTER_OP(New)
    .setForward(compute, "cpu")
    .setBackward(refuse_backward, "cpu")
    .setParseAttrs(parse_attributes)
    .setInferType(infer_type)
    .setInferShape(infer_shape);

MXReturnValue initialize(int version) {
    return version >= FIRST_VERSION ? MX_SUCCESS : MX_FAIL;
}
