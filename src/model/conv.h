/* conv.h - what conv2d and linear share: kernels for the three passes, packed weights,
 * the calls, and the declaration of weight and bias; private to src/model. */
#ifndef DT_CONV_H
#define DT_CONV_H
#include "kernels/kernel.h"

/* Declares a weight of shape dim [rank], then, if attr.bias, a bias of attr.out numbers. */
dt_status dt_conv_declare(dt_net *net, dt_node *n, int rank, const int64_t *dim) DT_MUST_CHECK;
/* Chooses and opens the kernels of the passes.
 *   in, a  image, and kernel, stride, padding, bias: as the kernel sees it */
dt_status dt_conv_prepare(dt_step *s, dt_model *m, const dt_shape *in,
                          const dt_attr *a) DT_MUST_CHECK;
void dt_conv_forward(const dt_call *c);
void dt_conv_data(const dt_call *c);    /* d_in, if it is wanted */
void dt_conv_weights(const dt_call *c); /* d_param */
void dt_conv_destroy(dt_step *s);
#endif
