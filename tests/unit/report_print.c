/* report_print.c - what a run prints: the bar, two tutorials' lines against their published logs,
 * and float32 texts against NumPy's. */
#include "test.h"

#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "convert/convert.h"
#include "report/report.h"

/* ---- Where a report goes, and what came out -------------------------------------- */

enum { TEXT_CHARS = 1 << 16 };
typedef struct fixture {
    FILE *out;
    int terminal; /* the pseudo terminal's other side; it has no width until a test sets one */
    char text[TEXT_CHARS];
    size_t used; /* of text */
    dt_report r;
} fixture;

static int make(void **state)
{
    const struct termios raw = {.c_cflag = CS8}; /* else newlines gain carriage returns */
    fixture *f = calloc(1, sizeof *f);
    int fd = -1;

    assert_non_null(f);
    assert_int_equal(openpty(&f->terminal, &fd, NULL, &raw, NULL), 0);
    assert_int_equal(fcntl(f->terminal, F_SETFL, O_NONBLOCK), 0);
    f->out = fdopen(fd, "w");
    assert_non_null(f->out);
    *state = f;
    dt_tutorial_styles();
    return 0;
}

static int release(void **state)
{
    fixture *f = *state;
    dt_report_close(&f->r);
    fclose(f->out);
    close(f->terminal);
    free(f);
    return 0;
}

/* Collect what was printed: a terminal holds only a few bars before its writer waits. */
static void drain(fixture *f)
{
    ssize_t n;

    fflush(f->out);
    while ((n = read(f->terminal, f->text + f->used, TEXT_CHARS - 1 - f->used)) > 0)
        f->used += (size_t)n;
    assert_true(f->used < TEXT_CHARS - 1);
    f->text[f->used] = '\0';
}

/* All that was printed since the last call. */
static const char *printed(fixture *f)
{
    drain(f);
    f->used = 0;
    return f->text;
}

static void open_report(fixture *f, const char *style)
{
    const dt_report_setup setup = {
        .out = f->out, .epochs = 10, .steps_per_epoch = 195, .total_steps = 1950};
    dt_report_close(&f->r);
    assert_ok(dt_report_open(&f->r, style, &setup));
}

static void steps(fixture *f, int64_t epoch, int64_t first, int64_t last, double seconds,
                  int64_t images)
{
    for (int64_t i = first; i <= last; i++) {
        assert_ok(dt_report_step(&f->r, &(dt_step_record){.epoch = epoch,
                                                          .step = i,
                                                          .run_step = (epoch - 1) * 195 + i,
                                                          .loss = 2.125,
                                                          .lr = 0.01,
                                                          .images = images,
                                                          .seconds = seconds}));
        drain(f);
    }
}

/* ---- The bar --------------------------------------------------------------------- */

static void set_columns(const fixture *f, unsigned short columns)
{
    const struct winsize size = {.ws_row = 24, .ws_col = columns};
    assert_int_equal(ioctl(f->terminal, TIOCSWINSZ, &size), 0);
}

TEST_OF_FIXTURE(make, release, the_bar_shows_steps_and_the_time_left)
{
    static const struct {
        unsigned short columns;
        int64_t step;
        double seconds;
        const char *bar;
    } cases[] = {
        {100, 37, 0.125,
         "\repoch 1/10 [###                 ] 37/195: loss 2.1250, 256.0 images/s, 20 s "
         "left\033[K"},
        {100, 195, 20.5,
         "\repoch 1/10 [####################] 195/195: loss 2.1250, 1.6 images/s, 0 s "
         "left\033[K\n"},
        {64, 37, 0.125, "\repoch 1/10 [###                 ] 37/195: loss 2.1250, 256.0 ima\033[K"},
        {100, 37, 0, "\repoch 1/10 [                    ] 1/195: loss 2.1250, 0.0 images/s\033[K"},
    };

    for (size_t i = 0; i < DT_COUNT_OF(cases); i++) {
        set_columns(f, cases[i].columns);
        open_report(f, "auto");
        steps(f, 1, 1, cases[i].step, cases[i].seconds, 32);
        const char *bar = strrchr(printed(f), '\r');
        assert_non_null(bar);
        assert_string_equal(bar, cases[i].bar);
    }
}

static int count(const char *text, char c)
{
    int n = 0;
    for (; *text; text++)
        n += *text == c;
    return n;
}

/* 195 steps of 31.25 ms: the first, then one drawing every 4 (125 ms >= 0.1 s), and the last. */
TEST_OF_FIXTURE(make, release, bars_are_not_drawn_too_often)
{
    set_columns(f, 80);
    open_report(f, "auto");
    steps(f, 1, 1, 195, 0.03125, 32);
    assert_int_equal(count(printed(f), '\r'), 1 + 194 / 4 + 1);
    assert_int_equal(count(f->text, '\n'), 1);
    steps(f, 2, 1, 4, 0.03125, 32); /* a new epoch begins anew */
    assert_non_null(strstr(printed(f), "epoch 2/10 [                    ] 4/195: "));
    assert_non_null(strstr(f->text, ", 1024.0 images/s, 6 s left"));
}

/* A test's bar is gone when it ends; in a file it is a line per interval. */
TEST_OF_FIXTURE(make, release, a_test_shows_how_far_it_is)
{
    for (int pass = 0; pass < 2; pass++) { /* a second test begins anew */
        set_columns(f, 80);
        if (pass == 0)
            open_report(f, "auto");
        dt_report_test(&f->r, 100, 400, 0.05); /* too early */
        assert_string_equal(printed(f), "");
        dt_report_test(&f->r, 200, 400, 2);
        assert_string_equal(printed(f), "\rtest 200/400: 100.0 images/s, 2 s left\033[K");
        dt_report_test(&f->r, 300, 400, 2.05);
        assert_string_equal(printed(f), "");
        dt_report_test(&f->r, 400, 400, 4);
        assert_string_equal(printed(f), "\r\033[K");
    }
    set_columns(f, 0);
    dt_report_test(&f->r, 100, 400, 1);
    dt_report_test(&f->r, 200, 400, 12.5);
    dt_report_test(&f->r, 400, 400, 25);
    assert_string_equal(printed(f), "test 200/400: 16.0 images/s, 12 s left\n");
    open_report(f, "cs744");
    dt_report_test(&f->r, 200, 400, 12.5);
    assert_string_equal(printed(f), "");
}

/* The error of a run that fails in mid-epoch stands on a line of its own. */
TEST_OF_FIXTURE(make, release, a_failure_leaves_the_bars_line)
{
    set_columns(f, 80);
    open_report(f, "auto");
    steps(f, 1, 1, 5, 1, 32);
    printed(f);
    assert_ok(dt_report_end(&f->r, &(dt_end_record){.ok = false}));
    assert_string_equal(printed(f), "\n");
}

/* --max-steps cuts the last epoch: its bar ends where the run does. */
TEST_OF_FIXTURE(make, release, a_cut_epoch_is_full_at_its_end)
{
    const dt_report_setup setup = {
        .out = f->out, .epochs = 10, .steps_per_epoch = 195, .total_steps = 200};

    set_columns(f, 80);
    assert_ok(dt_report_open(&f->r, "auto", &setup));
    steps(f, 2, 1, 5, 1, 32);
    assert_non_null(strstr(printed(f), "[####################] 5/5: "));
}

/* ---- Lines ----------------------------------------------------------------------- */

static const dt_epoch_record epoch_record = {
    .epoch = 1,
    .train_loss = 1.53421,
    .test = {.loss = 2.26614, .accuracy = 0.138, .correct = 1380, .images = 10000},
    .seconds = 20.8};
static const dt_end_record end_record = {.ok = true,
                                         .steps = 1950,
                                         .made = 195,
                                         .seconds = 25.25,
                                         .weights_hash = "00112233445566778899aabbccddeeff",
                                         .state_hash = "ffeeddccbbaa99887766554433221100",
                                         .folder = "runs/x",
                                         .account = {5.5, 1, 0.5, 0.2, 2, 0.2}};
#define HASHES                                                                                     \
    "weights hash 00112233445566778899aabbccddeeff\n"                                              \
    "state hash   ffeeddccbbaa99887766554433221100\n"

TEST_OF_FIXTURE(make, release, a_file_gets_a_line_per_interval)
{
    open_report(f, "auto");
    steps(f, 1, 1, 50, 0.5, 256); /* first step, then every 10 s: steps 21 and 41 */
    assert_string_equal(printed(f),
                        "epoch 1/10 step 1/195: loss 2.1250, lr 0.01, 512.0 images/s\n"
                        "epoch 1/10 step 21/195: loss 2.1250, lr 0.01, 512.0 images/s\n"
                        "epoch 1/10 step 41/195: loss 2.1250, lr 0.01, 512.0 images/s\n");
    assert_ok(dt_report_epoch(&f->r, &epoch_record));
    assert_ok(dt_report_end(&f->r, &end_record));
    assert_string_equal(printed(f),
                        "epoch 1/10: train loss 1.5342, test loss 2.2661, test accuracy 13.80 "
                        "%, 20.8 s, 615.4 images/s\n" HASHES
                        "time: compute 5.5 s, exposed exchange 1.0 s, waiting for others 0.5 s, "
                        "data 0.2 s, saving 2.0 s, rest 0.2 s\n"
                        "195 steps in 25.2 s; the run is in runs/x\n");
}

TEST_OF_FIXTURE(make, release, mindspore_lines_are_the_tutorials)
{
    open_report(f, "mindspore");
    assert_ok(
        dt_report_step(&f->r, &(dt_step_record){.epoch = 1, .step = 156, .loss = 2.00840164}));
    assert_ok(dt_report_step(&f->r, &(dt_step_record){.epoch = 2, .step = 156, .loss = 1.6407638}));
    assert_ok(dt_report_epoch(&f->r, &epoch_record));
    assert_ok(dt_report_end(&f->r, &end_record));
    assert_string_equal(printed(f),
                        "epoch: 1 step: 156, loss is 2.0084016\n"
                        "epoch: 2 step: 156, loss is 1.6407638\n" HASHES "training success\n");
    assert_ok(dt_report_end(&f->r, &(dt_end_record){.ok = false}));
    assert_string_equal(printed(f), "training failed\n");
}

/* Iteration 0 takes 100 s and is not counted; iterations 1-9 take 1.5 s, the rest 3
 * s. */
TEST_OF_FIXTURE(make, release, cs744_lines_are_the_courses)
{
    open_report(f, "cs744");
    steps(f, 1, 1, 1, 100, 256);
    steps(f, 1, 2, 10, 1.5, 256);
    steps(f, 1, 11, 11, 6.5, 256); /* iteration 10, counted from 0 */
    steps(f, 1, 12, 50, 3, 256);
    assert_ok(dt_report_epoch(&f->r, &epoch_record));
    steps(f, 2, 1, 50, 1, 256); /* times are those of the first epoch */
    assert_ok(dt_report_end(&f->r, &end_record));
    assert_string_equal(printed(f), "0 loss:  2.125\n"
                                    "average time:  2.000000\n" /* (9*1.5+6.5)/10 */
                                    "20 loss:  2.125\n"
                                    "average time over 40 iterations without the "
                                    "first:  2.743590\n" /* (9*1.5+6.5+29*3)/39 */
                                    "40 loss:  2.125\n"
                                    "Test set: Average loss: 2.2661, Accuracy: "
                                    "1380/10000 (14%)\n\n"
                                    "0 loss:  2.125\n20 loss:  2.125\n40 loss:  "
                                    "2.125\n" HASHES);
}

/* ---- Numbers --------------------------------------------------------------------- */

/* str(numpy.float32(x)), NumPy 2.4.6; above 2^24 as NumPy 1 prints, without
 * exponent. */
TEST(float32_texts_are_numpys)
{
    static const struct {
        double x;
        const char *text;
    } cases[] = {
        {2.0084016, "2.0084016"},
        {2.3025851, "2.3025851"},
        {2, "2.0"},
        {100, "100.0"},
        {0.1, "0.1"},
        {-0.0, "-0.0"},
        {0, "0.0"},
        {123456, "123456.0"},
        {16777216, "16777216.0"},
        {1e-5, "1e-05"},
        {9.9999e-05, "9.9999e-05"},
        {1.5e-7, "1.5e-07"},
        {1e-45, "1e-45"},
        {1e16, "1e+16"},
        {3.4e38, "3.4e+38"},
        {0.00123, "0.00123"},
        {(double)NAN, "nan"},
        {(double)INFINITY, "inf"},
        {-(double)INFINITY, "-inf"},
    };
    char text[DT_FLOAT32_CHARS];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(dt_float32_text(cases[i].x, text), cases[i].text);
    for (uint32_t i = 0; i < 20000; i++) { /* and they always give the number back */
        uint32_t bits[4];
        float x;
        dt_random(5, DT_STREAM_TEST, 0, i, 0, bits);
        memcpy(&x, bits, sizeof x);
        if (isfinite(x))
            assert_true(strtof(dt_float32_text((double)x, text), NULL) == x);
    }
}
