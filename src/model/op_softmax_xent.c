/* op_softmax_xent.c - softmax cross-entropy in one of two forms, each with its own gradient.
 *
 * loss_epsilon 0   log p as z - max - log(sum of exp): any loss that a float holds, and a
 *                  gradient of p - y, however wrong the sample. PyTorch's.
 * loss_epsilon > 0 the Ascend tutorial's expanded form: log(p + epsilon). With its 1e-24
 *                  no loss is above 55.26, and a sample whose p is far below 1e-24 pulls
 *                  no more.
 *
 * logit_scale multiplies the logits first; by 1 they keep their bits.
 *
 *   in[0]     logits [n][c] float32 (in_type); labels [n]
 *   out       loss of each sample [n] float32
 *   saved     probabilities [n][c] float32
 *   backward  d_in[0] [n][c] grad_type; every sample weighs 1 / divisor */
#include "loops.h"

static dt_status softmax_xent_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    (void)n;
    *out = (dt_shape){in[0].n, 1, 1, 1};
    return DT_OK;
}

static dt_status softmax_xent_prepare(dt_step *s, dt_model *m)
{
    (void)m;
    s->saved_bytes = (size_t)dt_shape_count(&s->in_shape[0]) * sizeof(float);
    if (s->loss_epsilon > 0)
        snprintf(s->kernels, sizeof s->kernels, "own log(p + %g)", (double)s->loss_epsilon);
    else
        snprintf(s->kernels, sizeof s->kernels, "own log-sum-exp");
    return DT_OK;
}

/* One-hot, smoothed in training: (1 - s) onehot + s / classes (Szegedy et al. 2015,
 * section 7). */
static float xent_target(const dt_step *s, int64_t class, int32_t label)
{
    const float smooth = s->mode == DT_TRAIN ? s->label_smoothing : 0;
    const float hot = class == label ? 1.0f : 0.0f;
    return (1 - smooth) * hot + smooth / (float)s->in_shape[0].c;
}

static float xent_scale(const dt_step *s)
{
    return s->logit_scale > 0 ? s->logit_scale : 1;
}

/* Loss of one sample; p [classes] receives the probabilities. */
static float xent_sample(const dt_step *s, const float *z, int32_t label, float *p)
{
    const int64_t classes = s->in_shape[0].c;
    const float scale = xent_scale(s);
    float max = z[0], sum = 0, loss = 0;

    for (int64_t j = 1; j < classes; j++)
        max = z[j] > max ? z[j] : max;
    max *= scale;
    for (int64_t j = 0; j < classes; j++)
        p[j] = scale * z[j] - max;
    for (int64_t j = 0; j < classes; j++)
        p[j] = (float)dt_exp((double)p[j]);
    for (int64_t j = 0; j < classes; j++)
        sum += p[j];
    for (int64_t j = 0; j < classes; j++)
        p[j] /= sum;
    const float log_sum = (float)dt_log((double)sum), eps = s->loss_epsilon;
    for (int64_t j = 0; j < classes; j++) {
        const float y = xent_target(s, j, label);
        if (y > 0) /* a logit of -infinity is no harm to the others */
            loss -=
                y * (eps > 0 ? (float)dt_log((double)(p[j] + eps)) : scale * z[j] - max - log_sum);
    }
    return loss;
}

int64_t dt_logits_choose(const float *z, int64_t classes)
{
    int64_t best = 0;
    for (int64_t j = 1; j < classes; j++)
        if (z[j] > z[best])
            best = j;
    return best;
}

/* The mean over samples is the caller's: it divides loss_sum. */
static void softmax_xent_forward(const dt_call *c)
{
    const int64_t n = c->step->in_shape[0].n, classes = c->step->in_shape[0].c;
    const float *logits = c->in[0];
    float *p = c->saved, *loss = c->out;

    *c->result = (dt_result){0, 0};
    for (int64_t i = 0; i < n; i++) {
        const float *z = logits + i * classes;
        loss[i] = xent_sample(c->step, z, c->labels[i], p + i * classes);
        c->result->loss_sum += (double)loss[i];
        c->result->correct += dt_logits_choose(z, classes) == c->labels[i];
    }
}

/* How much of its target a class pulls with: all of it, or p / (p + epsilon). */
static float xent_pull(const dt_step *s, int64_t class, int32_t label, float p)
{
    const float y = xent_target(s, class, label), eps = s->loss_epsilon;
    return eps > 0 ? y * (p / (p + eps)) : y;
}

/* With w_j the pull of class j: dz_k = scale (p_k sum_j w_j - w_k) / divisor. */
static void softmax_xent_backward(const dt_call *c)
{
    const int64_t n = c->step->in_shape[0].n, classes = c->step->in_shape[0].c;
    const float share = (float)c->divisor, scale = xent_scale(c->step);

    for (int64_t i = 0; i < n; i++) {
        const float *p = (const float *)c->saved + i * classes;
        float sum = 0;
        for (int64_t j = 0; j < classes; j++)
            sum += xent_pull(c->step, j, c->labels[i], p[j]);
        for (int64_t j = 0; j < classes; j++) {
            const float w = xent_pull(c->step, j, c->labels[i], p[j]);
            const float dz = scale * ((p[j] * sum - w) / share);
            if (c->step->grad_type == DT_BF16)
                ((dt_bf16 *)c->d_in[0])[i * classes + j] = dt_f32_to_bf16(dz);
            else
                ((float *)c->d_in[0])[i * classes + j] = dz;
        }
    }
}

const dt_op dt_op_softmax_xent = {
    .name = "softmax_xent",
    .infer = softmax_xent_infer,
    .prepare = softmax_xent_prepare,
    .forward = softmax_xent_forward,
    .backward = softmax_xent_backward,
};
