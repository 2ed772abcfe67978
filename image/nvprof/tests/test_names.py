"""Names are spelled as in nvprof's real tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvprof import names

SPELLED = [
    (
        "mxnet::op::forward_kernel(float*, float const*, float const*, int)",
        "mxnet::op::forward_kernel(float*, float const *, float const *, int)",
    ),
    (
        "void op_generic_tensor_kernel<2, float, float, float, 256,"
        " (cudnnGenericOp_t)7, (cudnnNanPropagation_t)0, (cudnnDimOrder_t)0, 1>"
        "(cudnnTensorStruct, float*, cudnnTensorStruct, float const*)",
        "void op_generic_tensor_kernel<int=2, float, float, float, int=256,"
        " cudnnGenericOp_t=7, cudnnNanPropagation_t=0, cudnnDimOrder_t=0, int=1>"
        "(cudnnTensorStruct, float*, cudnnTensorStruct, float const *)",
    ),
    (
        "void fft2d_c2r_32x32<float, false, false, 0u, false, true>(float*, float2)",
        "void fft2d_c2r_32x32<float, bool=0, bool=0, unsigned int=0, bool=0, bool=1>"
        "(float*, float2)",
    ),
    (
        "void f<mshadow::expr::Plan<mshadow::Tensor<mshadow::gpu, 4, float>, float>"
        " >(mshadow::Shape<2>)",
        "void f<mshadow::expr::Plan<mshadow::Tensor<mshadow::gpu, int=4, float>,"
        " float>>(mshadow::Shape<int=2>)",
    ),
    ("do_not_remove_this_kernel()", "do_not_remove_this_kernel(void)"),
    (
        "void g<-3, 4ul, 5l, 6ull>()",
        "void g<int=-3, unsigned long=4, long=5, unsigned long long=6>(void)",
    ),
    ("volta_sgemm_32x128_tn", "volta_sgemm_32x128_tn"),
    ("[CUDA memcpy HtoD]", "[CUDA memcpy HtoD]"),
    (
        "f(float const* const*, int&, S const&)",
        "f(float const * const *, int&, S const &)",
    ),
    ("(anonymous namespace)::f<(anonymous namespace)::S>(int)",) * 2,
    ("f<void (*)(int, 8)>(int)", "f<void (*)(int, 8)>(int)"),
    ("void f<S::operator()() const>()", "void f<S::operator()() const>(void)"),
    (
        "void f<(S::operator<(S const&)), 3>(int)",
        "void f<(S::operator<(S const &)), int=3>(int)",
    ),
    (
        "void f<std::array<char*, 3ul> >(int, std::array<char*, 3ul>)",
        "void f<std::array<char*, unsigned long=3>>"
        "(int, std::array<char*, unsigned long=3>)",
    ),
]


@pytest.mark.parametrize(("demangled", "spelled"), SPELLED)
def test_a_demangled_name_is_spelled_as_nvprof_did(demangled, spelled):
    assert names.nvprof(demangled) == spelled


@given(st.text(alphabet="ab<>(),:*& 0123truefalse&const[]", max_size=60))
def test_any_text_is_spelled_without_an_error_and_only_once(text):
    once = names.nvprof(text)
    assert names.nvprof(once) == once or "()" in once or "> >" in once


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("mxnet::op::forward_kernel(float*, float const *)", "forward_kernel"),
        ("void a::b<int=8, c::d>(e::f)", "b"),
        ("void a<b>::c<d>(e)", "c"),
        ("volta_sgemm_32x128_tn", "volta_sgemm_32x128_tn"),
        ("(anonymous namespace)::f(int)", "f"),
        ("void (anonymous namespace)::f<int=1>(int)", "f"),
        ("", ""),
    ],
)
def test_a_kernels_own_name_has_no_namespaces_and_arguments(name, function):
    assert names.function(name) == function
