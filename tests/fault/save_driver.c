/* save_driver.c - saves checkpoints with known content, for harnesses that kill it, fail its
 * system calls or cut its disk.
 *
 *   save_driver FOLDER FIRST COUNT   save steps FIRST, FIRST + 1, ... and after each durable
 *                                    save print "saved <step> <state_hash>", then prune
 *                                    RANKS=n: in pieces, by n processes at once
 *   save_driver --load FOLDER        print "loaded <step> <state_hash>" of the newest valid
 *                                    checkpoint, or "none"
 *   save_driver --load               the same for each line of stdin; after it stands
 *                                    "torn <name>" where a checkpoint under its final name
 *                                    is not whole. A load that fails prints "failed
 *                                    <exit code> <why>"
 *
 * FOLDER is a run folder; it gets metrics.jsonl, one line a step, like a run's, and a load
 * checks that the file is as long as the checkpoint says. Step k's numbers are random ones
 * keyed by k. Exit code 0, or that of the failure, named on stderr. */
#include <sys/mman.h>
#include <sys/wait.h>

#include "pieces/pieces.h"
#include "report/report.h"
#include "store/checkpoint_internal.h"
#include "store/store.h"

typedef struct driver {
    dt_net *net;
    dt_model *model;
    int ranks; /* 0: whole */
    dt_options options;
    float *slab; /* master, momentum, running means, running variances */
    size_t floats, channels;
    dt_snapshot s;
} driver;

static dt_status driver_open(driver *d)
{
    const dt_net_spec spec = {.net = "vgg11", .classes = 10, .width_divisor = 64};

    *d = (driver){0};
    dt_options_init(&d->options);
    d->options.net = "vgg11";
    d->options.width_divisor = 64;
    if (getenv("RANKS"))
        d->ranks = (int)strtol(getenv("RANKS"), NULL, 10);
    DT_TRY(dt_net_create(&d->net, &spec));
    DT_TRY(dt_model_create(&d->model, d->net, &(dt_model_opts){.parts = 1, .threads = 1}));
    d->floats = d->net->slab_floats;
    d->channels = d->net->norm_channels;
    DT_TRY(dt_calloc(&d->slab, 2 * (d->floats + d->channels), sizeof *d->slab, "a snapshot"));
    float *momentum = d->slab + d->floats, *mean = momentum + d->floats;
    d->s = (dt_snapshot){.model = {d->net, d->slab, mean, mean + d->channels},
                         .momentum = momentum,
                         .options = &d->options,
                         .data_digest = "0123456789abcdef0123456789abcdef",
                         .bits_class = "save_driver"};
    return DT_OK;
}

static void driver_close(driver *d)
{
    free(d->slab);
    dt_model_destroy(d->model);
    dt_net_destroy(d->net);
}

/* The snapshot of step k, whatever was in it before. */
static void driver_fill(driver *d, int64_t k)
{
    dt_fill_uniform(d->slab, 2 * (d->floats + d->channels), -1, 1, (uint32_t)k, DT_STREAM_TEST, 0);
    dt_fill_uniform(d->s.model.running_var, d->channels, 0, 1, (uint32_t)k, DT_STREAM_TEST, 0);
    d->s.at = (dt_position){.epoch = k / 7,
                            .step = k % 7,
                            .run_step = k,
                            .loss_sum = (double)k / 3,
                            .images = 32 * (k % 7),
                            .best_accuracy = k < 7 ? -1 : 0.1 * (double)(k / 7),
                            .best_epoch = k / 7};
    d->s.best = k % 7 == 0;
}

static dt_status state_hash(const driver *d, int64_t epoch, int64_t step,
                            char text[DT_DIGEST_CHARS])
{
    dt_snapshot s = d->s;
    dt_digest digest;
    s.at = (dt_position){.epoch = epoch, .step = step};
    DT_TRY(dt_snapshot_hash(&s, NULL, &digest));
    dt_digest_text(digest, text);
    return DT_OK;
}

/* The first checkpoint of the run that has its final name and is not whole, else "". */
static dt_status torn_name(const dt_rundir *run, char name[PATH_MAX])
{
    dt_checkpoint_name *list = NULL;
    dt_folder in;
    size_t count = 0;

    name[0] = '\0';
    DT_TRY(dt_checkpoints_open(&in, run->folder, run->path));
    const dt_status st = dt_checkpoint_list(&in, &list, &count);
    for (size_t i = 0; i < count && !name[0]; i++) {
        dt_checkpoint *c = NULL;
        if (dt_checkpoint_open(&c, &in, list[i].text) != DT_OK ||
            dt_checkpoint_check(c, NULL, NULL, NULL) != DT_OK)
            snprintf(name, PATH_MAX, " torn %s", list[i].text);
        dt_checkpoint_close(c);
        dt_fail_clear();
    }
    free(list);
    dt_folder_close(&in);
    return st;
}

static dt_status run_open(dt_rundir *run, const char *folder)
{
    *run = (dt_rundir){.lock = -1};
    snprintf(run->path, sizeof run->path, "%s", folder);
    run->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run->folder >= 0)
        return DT_OK;
    return dt_fail(errno == ENOENT ? DT_NOINPUT : DT_IO, "%s: %s", folder, strerror(errno));
}

/* "saved" is said with one write: a reader of it knows that the save had returned. */
static dt_status say(const char *what, int64_t step, const char *hash, const char *more)
{
    char line[200];
    const int n =
        snprintf(line, sizeof line, "%s %lld %s%.80s\n", what, (long long)step, hash, more);
    return write(STDOUT_FILENO, line, (size_t)n) == n
               ? DT_OK
               : dt_fail(DT_IO, "standard output: %s", strerror(errno));
}

/* Each rank in a process of its own, as in a run: what they do is interleaved. */
static dt_status save_pieces(const driver *d, dt_rundir *run)
{
    const size_t bytes = (size_t)d->ranks * DT_CHECKPOINT_FILES * sizeof(dt_written);
    dt_written *written =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    dt_saving *w = NULL;
    bool good = written != MAP_FAILED;
    int code = 0;

    DT_TRY(dt_saving_begin(&w, run, d->s.at.run_step, d->ranks));
    for (int rank = 0; rank < d->ranks; rank++) {
        if (fork() != 0)
            continue;
        dt_snapshot s = d->s;
        const dt_portion portion = {rank, d->ranks, d->model, 1, s.model.master, NULL};
        const dt_portion momentum = {rank, d->ranks, d->model, 1, s.momentum, NULL};
        s.rank = rank;
        s.metrics_fd = rank == 0 ? s.metrics_fd : 0;
        s.portions = d->ranks;
        s.portion[DT_CHECKPOINT_MODEL] = &portion;
        s.portion[DT_CHECKPOINT_MOMENTUM] = &momentum;
        _exit(dt_saving_write(dt_saving_path(w), &s, written + rank * DT_CHECKPOINT_FILES) !=
              DT_OK);
    }
    while (wait(&code) > 0)
        good = good && code == 0;
    const dt_status st =
        good ? dt_saving_end(w, written) : dt_fail(DT_IO, "a rank has not written");
    if (!good)
        dt_saving_abandon(w);
    munmap(written, bytes);
    return st;
}

static dt_status save_one(driver *d, dt_rundir *run, dt_report *m, int64_t k)
{
    static const dt_keep keep = {.last = 2};
    char hash[DT_DIGEST_CHARS];

    driver_fill(d, k);
    /* A line that is lost is a warning, as in a run. */
    if (dt_report_step(m, &(dt_step_record){.run_step = k, .loss = d->s.at.loss_sum}) != DT_OK)
        dt_fail_clear();
    DT_TRY(dt_report_records(m, &d->s.at.metrics_bytes, &d->s.metrics_fd));
    DT_TRY(d->ranks ? save_pieces(d, run) : dt_checkpoint_save(run, &d->s));
    DT_TRY(state_hash(d, d->s.at.epoch, d->s.at.step, hash));
    DT_TRY(say("saved", k, hash, ""));
    return dt_checkpoint_prune(run, k, &keep);
}

typedef struct loading {
    driver *d;
    dt_position at;
} loading;

/* The newest valid checkpoint of the run, "" for none; torn ones are reported apart. */
static dt_status find(const dt_rundir *run, loading *l, bool names, char found[PATH_MAX],
                      char torn[PATH_MAX])
{
    dt_snapshot into = l->d->s;
    const dt_query t = {.end = INT64_MAX, .into = &into};
    const dt_status st = dt_checkpoint_newest(run->folder, run->path, &t, found);

    if (st == DT_FORMAT)
        dt_fail_clear();
    else
        DT_TRY(st);
    if (found[0])
        l->at = into.at;
    return names ? torn_name(run, torn) : DT_OK;
}

static dt_status save_all(driver *d, const char *folder, int64_t first, int64_t count)
{
    dt_report_setup setup = {.path = folder};
    dt_report m;
    loading l = {.d = d};
    char found[PATH_MAX];
    dt_rundir run;

    if (mkdir(folder, 0755) == 0)
        DT_TRY(dt_folder_sync_above(AT_FDCWD, folder));
    else if (errno != EEXIST)
        return dt_fail(DT_CANTCREATE, "%s: %s", folder, strerror(errno));
    DT_TRY(run_open(&run, folder));
    setup.folder = run.folder;
    /* As in a run, the lines after the newest valid checkpoint go. */
    DT_TRY(find(&run, &l, false, found, NULL));
    setup.keep_bytes = l.at.metrics_bytes;
    dt_status st = dt_report_open(&m, "jsonl", &setup);
    for (int64_t k = first; k < first + count && st == DT_OK; k++)
        st = save_one(d, &run, &m, k);
    dt_report_close(&m);
    dt_rundir_close(&run);
    return st;
}

static dt_status load(driver *d, const char *folder, bool names)
{
    char found[PATH_MAX], hash[DT_DIGEST_CHARS], torn[PATH_MAX] = "";
    loading l = {.d = d};
    dt_rundir run;
    struct stat info;

    DT_TRY(run_open(&run, folder));
    const dt_status st = find(&run, &l, names, found, torn);
    const bool lines = fstatat(run.folder, "metrics.jsonl", &info, 0) == 0;
    dt_rundir_close(&run);
    DT_TRY(st);
    if (!found[0])
        return printf("none%s\n", torn) < 0 || fflush(stdout) != 0
                   ? dt_fail(DT_IO, "standard output: %s", strerror(errno))
                   : DT_OK;
    DT_TRY(state_hash(d, l.at.epoch, l.at.step, hash));
    if (!lines || info.st_size < l.at.metrics_bytes)
        return dt_fail(DT_FORMAT, "%s/metrics.jsonl is shorter than the %lld bytes that %s records",
                       folder, (long long)l.at.metrics_bytes, found);
    return say("loaded", l.at.run_step, hash, torn);
}

/* Thousands of folders, one network. */
static dt_status load_each(driver *d)
{
    char folder[PATH_MAX];
    dt_status st = DT_OK;

    while (st == DT_OK && fgets(folder, sizeof folder, stdin)) {
        folder[strcspn(folder, "\n")] = '\0';
        const dt_status loaded = load(d, folder, true);
        if (loaded != DT_OK &&
            (printf("failed %d %s\n", dt_status_exit_code(loaded), dt_fail_text()) < 0 ||
             fflush(stdout) != 0))
            st = dt_fail(DT_IO, "standard output: %s", strerror(errno));
        else
            dt_fail_clear();
    }
    return st;
}

int main(int argc, char **argv)
{
    driver d;
    dt_extra_pieces();
    dt_status st = driver_open(&d);
    const bool loads = argc >= 2 && argc <= 3 && strcmp(argv[1], "--load") == 0;

    if (st == DT_OK && loads)
        st = argc == 3 ? load(&d, argv[2], false) : load_each(&d);
    else if (st == DT_OK && argc == 4)
        st = save_all(&d, argv[1], strtoll(argv[2], NULL, 10), strtoll(argv[3], NULL, 10));
    else if (st == DT_OK)
        st = dt_fail(DT_USAGE, "usage: save_driver FOLDER FIRST COUNT | --load [FOLDER]");
    driver_close(&d);
    if (st != DT_OK)
        fprintf(stderr, "save_driver: %s\n", dt_fail_text());
    return dt_status_exit_code(st);
}
