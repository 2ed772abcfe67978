// The functions that course_gpu.py calls. Each returns why it failed, or null.
#ifndef COURSE_H_
#define COURSE_H_

#include <cstddef>
#include <exception>
#include <string>

extern "C" {

// Compute operator New. The sizes are B, M, C, H, W and K.
const char *course_new(int gpu, float *y, const float *x, const float *w, const int *sizes,
                       void *stream);

// Arrays on the GPU: zeros, with room on both sides that may be read and written.
const char *course_make(float **array, std::size_t floats);
const char *course_free(float *array);
const char *course_put(float *array, const float *values, std::size_t floats);
const char *course_get(float *values, const float *array, std::size_t floats);

// Layers on the GPU.
const char *course_own_convolution(float *y, const float *x, const float *w, const int *sizes);
const char *course_convolution(float *y, const float *x, const float *w, const int *sizes);
const char *course_pooling(float *y, const float *x, int images, int maps, int rows, int columns);
const char *course_tanh(float *y, int images, int length);
const char *course_dense(float *y, const float *x, const float *weights, const float *bias,
                         int images, int inputs, int outputs);
const char *course_softmax(float *y, int images, int classes);
}

namespace course {

template <typename Work> const char *problem(const Work &work) {
    static thread_local std::string said;
    try {
        work();
        return nullptr;
    } catch (const std::exception &error) {
        said = error.what();
        return said.c_str();
    }
}

} // namespace course

#endif
