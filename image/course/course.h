// The functions that course_gpu.py calls. Each returns why it failed, or null.
#ifndef COURSE_H_
#define COURSE_H_

#include <exception>
#include <string>

extern "C" {

// Arrays on the GPU: zeros or values, with room on both sides that may be read and written.
const char *course_make(float **array, const float *values, std::size_t floats);
const char *course_free(float *array);
const char *course_get(float *values, const float *array, std::size_t floats);

// Compute a layer, named as in MXNet, on the GPU; x and y have four axes.
const char *course_layer(const char *name, float *y, const float *x, const float *weights,
                         const float *bias, const int *y_shape, const int *x_shape);
}

namespace course {

// Operator New. The sizes are B, M, C, H, W and K.
void compute_new(int gpu, float *y, const float *x, const float *w, const int *sizes,
                 void *stream = nullptr);

// Compare an image's outputs with the formula; x, y and w are on the host.
void compare(const float *y, const float *x, const float *w, const int *sizes, int image);

template <typename Work> const char *problem(const Work &work) {
    static thread_local std::string said;
    try {
        work();
        return nullptr;
    } catch (const std::exception &error) {
        return (said = error.what()).c_str();
    }
}

} // namespace course

#endif
