/* train_allocation.c - a training step allocates nothing, from the images to the exchange, the
 * checks, the line of metrics.jsonl and the line of progress: calls are counted, and resident
 * memory stays flat. */
#include "ranks.h"

#include "folder.h"

#include "allocations.h"
#include "check/check.h"
#include "convert/convert.h"
#include "small_run.h"
#include "split/split.h"
#include "train/session.h"

void dt_extra_exchanges(void); /* its header needs MPI's */

WRAP(void *, aligned_alloc, (size_t a, size_t n), (a, n))
WRAP(int, posix_memalign, (void **p, size_t a, size_t n), (p, a, n))
WRAP(char *, strdup, (const char *text), (text))
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, open_memstream, (char **text, size_t *size), (text, size))
WRAP(void *, mmap, (void *a, size_t n, int p, int f, int d, long o), (a, n, p, f, d, o))

static long resident_pages(void)
{
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &size, &resident), 2);
    fclose(f);
    return resident;
}

typedef struct allocation_case {
    const char *net, *precision, *bn, *exchange, *log_style;
    int split_nodes;
    const char *strategy;
} allocation_case;

static void options_of(dt_options *o, const allocation_case *a, char *folder)
{
    *o = small_run(a->net);
    o->data = "synthetic:88"; /* the last of three batches is uneven: a second plan runs too */
    o->image_size = 32;
    o->drop_remainder = false;
    o->precision = a->precision;
    o->threads = comm->world == 1 ? 2 : 1;
    o->epochs = 1000;
    o->bn = a->bn;
    o->exchange = a->exchange;
    assert_ok(dt_comm_split_nodes(comm, a->split_nodes));
    o->bucket_mb = 0.05; /* several */
    o->check_every = 4;
    o->strategy = a->strategy;
    o->replay_every = strcmp(a->bn, "local") == 0 && !*a->strategy ? 5 : 0; /* one shard alone */
    o->save_every = "0";
    o->log_style = a->log_style;
    o->out = folder;
}

/* Steps as the trainer takes them, with their records, and each epoch's. */
static void steps_run(dt_run *r, dt_session *s, int64_t first, int64_t end)
{
    for (int64_t step = first; step < end; step++) {
        const int64_t epoch = step / r->steps_per_epoch, at = step % r->steps_per_epoch;
        dt_step_result result;
        assert_ok(dt_run_step(r, epoch, at, false, &result));
        result.record.seconds = 0.1;
        assert_ok(dt_report_step(&s->report, &result.record));
        if (at + 1 == r->steps_per_epoch)
            assert_ok(dt_report_epoch(
                &s->report,
                &(dt_epoch_record){.epoch = epoch + 1,
                                   .train_loss = result.record.loss,
                                   .test = {.loss = 2, .accuracy = 0.1, .correct = 1, .images = 10},
                                   .seconds = 0.3}));
    }
}

static void session_open(dt_session *s, const dt_run *r, FILE **out)
{
    const dt_position at = {.best_accuracy = -1, .best_epoch = -1};

    memset(s, 0, sizeof *s);
    if (comm->rank > 0)
        return;
    assert_ok(dt_session_take(s, r));
    assert_ok(dt_session_begin(s, r, &at, ""));
    *out = fopen("/dev/null", "w");
    assert_non_null(*out);
    s->report.setup.out = *out;
}

static void session_close(dt_session *s, const char *folder, FILE *out)
{
    if (!s->leads)
        return;
    dt_session_close(s);
    fclose(out);
    folder_remove(folder);
}

static void steps_allocate_nothing(void **state)
{
    enum { SETTLED = 9, END = 24 };
    char folder[] = "allocation-XXXXXX";
    dt_options o;
    dt_run r;
    dt_session session;
    FILE *out = NULL;

    if (comm->rank == 0)
        assert_non_null(mkdtemp(folder));
    assert_ok(dt_comm_bcast(comm, folder, sizeof folder, 0));
    options_of(&o, *state, folder);
    assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    session_open(&session, &r, &out);
    steps_run(&r, &session, 0, SETTLED); /* libraries and pages settle */
    const long pages = resident_pages(), before = atomic_load(&calls);
    assert_true(before > 0); /* the counter counts */
    steps_run(&r, &session, SETTLED, END);
    assert_int_equal(atomic_load(&calls) - before, 0);
    const long grown_kib = (resident_pages() - pages) * (sysconf(_SC_PAGESIZE) / 1024);
    const bool cuts = *o.strategy;         /* moves that come early wait in memory of MPI's own */
    assert_true(cuts || grown_kib < 1024); /* allocator slack inside libraries */
    session_close(&session, folder, out);
    dt_run_close(&r);
}

/* All exact exchanges, log styles and scopes of batch norm. */
static allocation_case cases[] = {
    {"vgg11", "fp32", "local", "shared", "auto", 1, ""},
    {"vgg11", "fp32", "local", "tree", "cs744", 1, ""},
    {"vgg11", "auto", "local", "tree", "mindspore", 2, ""},
    {"vgg11", "fp32", "local", "gather", "auto", 1, ""},
    {"vgg11", "fp32", "local", "p2p", "auto", 1, ""},
    {"resnet50", "auto", "local", "auto", "auto", 1, ""},
    {"resnet50", "auto", "group:3", "auto", "auto", 1, ""},
    {"vgg11", "fp32", "local", "tree", "auto", 2, "all=out features.8=batch"},
    {"resnet50", "auto", "local", "auto", "auto", 1, "all=out"},
    {"resnet50", "auto", "sync", "auto", "auto", 1, "layer2.*=out fc=out"},
};
enum { CASES = sizeof cases / sizeof *cases };

int main(int argc, char **argv)
{
    struct CMUnitTest tests[CASES];
    char name[CASES][100];

    for (size_t i = 0; i < CASES; i++) {
        allocation_case *a = &cases[i];
        snprintf(name[i], sizeof name[i], "%s %s %s %s %s %d %s", a->net, a->precision, a->bn,
                 a->exchange, a->log_style, a->split_nodes, a->strategy);
        tests[i] = (struct CMUnitTest){name[i], steps_allocate_nothing, NULL, NULL, a};
    }
    dt_extra_split();
    dt_extra_exchanges();
    ranks_open(argc, argv);
    dt_extra_check();
    dt_tutorial_styles();
    return ranks_close(cmocka_run_group_tests_name("allocation", tests, NULL, NULL));
}
