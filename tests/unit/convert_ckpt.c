/* convert_ckpt.c - MindSpore's checkpoints as bytes: what is read of them, and what is refused.
 * Other programs read what is written, in tests/cli/formats.sh and proofs/formats.py. */
#include "folder.h"

#include "convert/convert.h"
#include "format/tensors.h"

#define BYTES(text) text, sizeof text - 1
/* A name of three letters, and a tensor of 23 or 13 bytes; lengths are written out. */
#define PAIR(tag)                                                                                  \
    "\x0a\x1e\x0a\x03" tag "\x12\x17\x08\x02\x08\x01\x12\x07"                                      \
    "Float32\x1a\x08\0\0\x80\x3f\0\0\0\x40"
#define COUNT                                                                                      \
    "\x0a\x14\x0a\x03"                                                                             \
    "n.n"                                                                                          \
    "\x12\x0d\x12\x05"                                                                             \
    "Int32\x1a\x04\7\0\0\0"
/* A scalar as MindSpore 1 writes it: of shape [0]. */
#define SCALAR(tag)                                                                                \
    "\x0a\x18\x0a\x03" tag "\x12\x11\x08\x00\x12\x07"                                              \
    "Float32\x1a\x04\0\0\x80\x3f"

static const struct {
    const char *bytes;
    size_t count;
    const char *message; /* part of it; NULL: accepted, with the pair "a.w" alone */
} files[] = {
    {BYTES(PAIR("a.w")), NULL},
    {BYTES(COUNT PAIR("a.w") COUNT PAIR("lrs")), NULL}, /* another type; no dot in the name */
    {BYTES(SCALAR("lrs") PAIR("a.w")), NULL},
    {BYTES(SCALAR("l.s") PAIR("a.w")), "shape does not fit its numbers"},
    {BYTES(PAIR("a.w") "crc_num\0\0\0\0\0\0\0\0\0\1"), NULL},
    {BYTES(""), "there is no tensor"},
    {BYTES(COUNT), "there is no tensor"},
    {BYTES("crc_num\0\0\0\0\0\0\0\0\0\1"), "byte 0: a field is none"},
    {BYTES("PK\3\4\5\6\7\10"), "d = torch.load('dir/a.ckpt'"},
    {BYTES(PAIR("a.w") PAIR("a.w")), "a name is there twice"},
    {BYTES("\x0a\x1e\x0a\x03"
           "a.w"
           "\x12\x17\x08\x02\x08\x01\x12\x07"
           "Float32\x1a\x08\0\0"),
     "byte 0: a field is longer than what holds it"},
    {BYTES("\x0a\x04\x0a\x03"
           "a.w"),
     "a field is longer than what holds it"},
    {BYTES("\x0a\x05\x0a\x03"
           "a.w"),
     "a value has no name or no tensor"},
    {BYTES("\x0a\x04\x0a\x02"
           "a\0"),
     "a name is empty or has a zero"},
    {BYTES("\x0a\x02\x0a\x00"), "a name is empty or has a zero"},
    {BYTES(PAIR("\xff.w")), "a name is there twice or no UTF-8"},
    {BYTES("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), "a number does not end"},
    {BYTES("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "a field is longer"},
    {BYTES("\x0d\0\0\0\0"), "a field is none of the format's"},
    {BYTES("\x08\x01"), "a field is no value"},
    /* [3] for two numbers; no numbers; the shape's product is 2^96 */
    {BYTES("\x0a\x1c\x0a\x03"
           "a.w"
           "\x12\x15\x08\x03\x12\x07"
           "Float32\x1a\x08\0\0\x80\x3f\0\0\0\x40"),
     "shape does not fit its numbers"},
    {BYTES("\x0a\x10\x0a\x03"
           "a.w"
           "\x12\x09\x12\x07"
           "Float32"),
     "shape does not fit its numbers"},
    {BYTES("\x0a\x20\x0a\x03"
           "a.w"
           "\x12\x19\x08\x80\x80\x80\x80\x80\x80\x40\x08\x80\x80\x80\x80\x80"
           "\x80\x40\x12\x07"
           "Float32"),
     "2^48 or more"},
};

TEST(files_are_checked)
{
    for (size_t i = 0; i < DT_COUNT_OF(files); i++) {
        const char *message = files[i].message;
        dt_safetensors *s = NULL;
        float x[2] = {0};
        const dt_status st =
            dt_safetensors_open(&s, "dir/a.ckpt", files[i].bytes, files[i].count);
        if (st != (message ? DT_FORMAT : DT_OK) ||
            (message &&
             (!strstr(dt_fail_text(), message) || !strstr(dt_fail_text(), "dir/a.ckpt"))))
            fail_msg("file %zu: '%s', want '%s'", i, dt_fail_text(), message);
        if (!message) {
            const dt_tensor *t = &s->tensor[0];
            assert_int_equal(s->count, 1);
            assert_string_equal(t->name, "a.w");
            assert_true(t->rank == 2 && t->shape[0] == 2 && t->shape[1] == 1);
            assert_ok(dt_safetensors_read(s, t, x));
            assert_true(x[0] == 1 && x[1] == 2);
        }
        dt_safetensors_close(s);
        dt_fail_clear();
    }
}

/* No byte may be missing. */
TEST(every_prefix_is_refused)
{
    static const char whole[] = PAIR("a.w");

    for (size_t n = 0; n < sizeof whole - 1; n++) {
        dt_safetensors *s = NULL;
        assert_fails(dt_safetensors_open(&s, "a.ckpt", whole, n), DT_FORMAT, "a.ckpt");
    }
}

int main(void)
{
    dt_extra_convert();
    return tests_run(NULL, NULL);
}
