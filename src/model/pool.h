/* pool.h - what max and average pooling share; private to src/model. */
#ifndef DT_POOL_H
#define DT_POOL_H
#include "loops.h"

/* Padding must be smaller than the kernel, so that every window holds a pixel. */
dt_status dt_pool_infer(const dt_node *n, const dt_shape *in, dt_shape *out);
void dt_pool_forward(const dt_call *c, dt_loop loop);
void dt_pool_backward(const dt_call *c, dt_loop loop);
#endif
