/* proof_digest.c - SHA-256 against FIPS 180-4's examples, and a state's digest against one that is
 * put together from its definition. */
#include "test.h"

#include <openssl/evp.h>

#include "proof/proof.h"

TEST(digest_of_texts)
{
    dt_sha sha;

    assert_ok(dt_sha_text(sha, (const char *[]){"a", "bc"}, 2));
    assert_string_equal(sha, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_ok(dt_sha_text(sha, NULL, 0));
    assert_string_equal(sha, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void raw_sha(const void *bytes, size_t n, unsigned char *out)
{
    assert_int_equal(EVP_Digest(bytes, n, out, NULL, EVP_sha256(), NULL), 1);
}

/* Tensors as files have them, each by itself; then the digest of all digests. */
TEST(digest_of_a_state)
{
    const dt_net_spec spec = {.net = "vgg11", .classes = 10, .width_divisor = 16};
    unsigned char part[256][32], all[32];
    dt_net *net = NULL;
    size_t n = 0;
    dt_sha want = "", got;

    assert_ok(dt_net_create(&net, &spec));
    const size_t floats = net->slab_floats, norms = net->norm_channels;
    float *x = calloc(2 * floats + 2 * norms, sizeof *x), *file = calloc(floats, sizeof *file);
    for (size_t i = 0; i < 2 * floats + 2 * norms; i++)
        x[i] = (float)i / 7;
    const dt_snapshot s = {.model = {net, x, x + 2 * floats, x + 2 * floats + norms},
                           .momentum = x + floats};
    for (int slab = 0; slab < 2; slab++) {
        for (size_t i = 0; i < net->params; i++) {
            dt_param_to_file(&net->param[i], x + (size_t)slab * floats + net->param[i].offset,
                             file);
            raw_sha(file, net->param[i].count * sizeof *file, part[n++]);
        }
        for (int k = 0; k < 2 && slab == 0; k++)
            raw_sha(x + 2 * floats + (size_t)k * norms, norms * sizeof *x, part[n++]);
    }
    raw_sha(part, 32 * n, all);
    for (size_t i = 0; i < 32; i++)
        snprintf(want + 2 * i, 3, "%02x", all[i]);
    for (int threads = 1; threads <= 5; threads += 2) {
        assert_ok(dt_sha_state(got, &s, threads));
        assert_string_equal(got, want);
    }
    x[floats] = -x[floats]; /* momentum */
    assert_ok(dt_sha_state(got, &s, 2));
    assert_string_not_equal(got, want);
    free(x);
    free(file);
    dt_net_destroy(net);
}
