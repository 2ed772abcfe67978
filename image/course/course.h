// What course_gpu.py calls, and what course.cpp has for the GPU's layers.
#ifndef COURSE_H_
#define COURSE_H_

extern "C" {

// A layer, named as in MXNet; its weights and bias are on the host, or null.
struct CourseLayer {
    const char *name;
    const float *weights, *bias;
    int floats;   // of the weights
    int shape[4]; // of the output
};

// Compute a chain of layers on the GPU, from images of a shape to what the last one puts out,
// both on the host. Return why it failed, or null.
const char *course_forward(const CourseLayer *layers, int count, float *found, const float *images,
                           const int *shape);
}

namespace course {

// Operator New. The sizes are B, M, C, H, W and K.
void compute_new(int gpu, float *y, const float *x, const float *w, const int *sizes,
                 void *stream = nullptr);

// Compare an image's outputs with the formula; x, y and w are on the host.
void compare(const float *y, const float *x, const float *w, const int *sizes, int image);

} // namespace course

#endif
