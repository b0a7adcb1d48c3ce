/* digest.c - SHA-256 (FIPS 180-4, OpenSSL's) of texts, files, data and a run's state. What is large
 * is cut into parts whose digests are taken by several threads, and the digest is that of theirs:
 * the parts are fixed, so the threads change nothing. */
#include "proof.h"

#include <openssl/evp.h>

enum { RAW = 32, BLOCK = 1 << 20 };

static void print_hex(const unsigned char *raw, dt_sha out)
{
    for (size_t i = 0; i < RAW; i++)
        snprintf(out + 2 * i, 3, "%02x", raw[i]);
}

static dt_status no_digest(void)
{
    return dt_fail(DT_NOMEM, "libcrypto computes no SHA-256: is memory short?");
}

/* One context for a thread's life: a step takes no memory. */
dt_status dt_sha_text(dt_sha out, const char *const *part, size_t parts)
{
    static _Thread_local EVP_MD_CTX *context;
    unsigned char raw[RAW];

    if (!context)
        context = EVP_MD_CTX_new();
    bool right = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (size_t i = 0; i < parts && right; i++)
        right = EVP_DigestUpdate(context, part[i], strlen(part[i])) == 1;
    if (!right || EVP_DigestFinal_ex(context, raw, NULL) != 1)
        return no_digest();
    print_hex(raw, out);
    return DT_OK;
}

static bool digest_of(const void *bytes, size_t count, unsigned char raw[RAW])
{
    return EVP_Digest(bytes, count, raw, NULL, EVP_sha256(), NULL) == 1;
}

/* The digest of bytes, which are freed. */
static dt_status digest_end(dt_sha out, void *bytes, size_t count, bool right)
{
    unsigned char all[RAW];

    right = right && digest_of(bytes, count, all);
    free(bytes);
    if (!right)
        return no_digest();
    print_hex(all, out);
    return DT_OK;
}

dt_status dt_sha_bytes(dt_sha out, const void *bytes, size_t count, int threads)
{
    const size_t parts = (count + BLOCK - 1) / BLOCK;
    unsigned char *raw = NULL;
    bool right = true;

    DT_TRY(dt_calloc(&raw, parts, RAW, "digests"));
#pragma omp parallel for num_threads(threads) reduction(&& : right)
    for (size_t i = 0; i < parts; i++)
        right = right && digest_of((const char *)bytes + i * BLOCK,
                                   DT_MIN(BLOCK, count - i * BLOCK), raw + i * RAW);
    return digest_end(out, raw, parts * RAW, right);
}

dt_status dt_sha_file(dt_sha out, int folder, const char *path)
{
    char *bytes = NULL;
    size_t count = 0;

    DT_TRY(dt_file_read(folder, path, SIZE_MAX, &bytes, &count));
    return digest_end(out, bytes, count, true);
}

/* Part i of a state's numbers: each tensor of the weights, all running means, all running
 * variances, each tensor of the momentum; with averages weights and statistics that are trained. */
static bool state_part(const dt_snapshot *s, size_t i, unsigned char raw[RAW])
{
    const dt_net *net = s->model.net;
    const struct {
        const float *slab, *whole; /* tensors of a slab, or numbers as they are */
    } table[] = {{s->model.master, NULL},       {NULL, s->model.running_mean},
                 {NULL, s->model.running_var},  {s->momentum, NULL},
                 {s->trained.master, NULL},     {NULL, s->trained.running_mean},
                 {NULL, s->trained.running_var}};
    size_t row = 0;

    for (size_t n; i >= (n = table[row].slab ? net->params : 1); row++)
        i -= n;
    if (!table[row].slab)
        return digest_of(table[row].whole, net->norm_channels * sizeof(float), raw);
    const dt_param *p = &net->param[i];
    float *file = malloc(p->count * sizeof *file);
    if (file)
        dt_param_to_file(p, table[row].slab + p->offset, file);
    const bool right = file && digest_of(file, p->count * sizeof *file, raw);
    free(file);
    return right;
}

dt_status dt_sha_state(dt_sha out, const dt_snapshot *s, int threads)
{
    const size_t params = s->model.net->params;
    const size_t parts = s->trained.net ? 3 * params + 4 : 2 * params + 2;
    unsigned char *raw = NULL;
    bool right = true;

    DT_TRY(dt_calloc(&raw, parts, RAW, "digests"));
#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(&& : right)
    for (size_t i = 0; i < parts; i++)
        right = state_part(s, i, raw + i * RAW) && right;
    return digest_end(out, raw, parts * RAW, right);
}
