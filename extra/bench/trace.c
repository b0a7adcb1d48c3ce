/* trace.c - the file of --trace, in Chrome's Trace Event Format: the times of all ranks in some
 * steps, on rank 0's clock: a process for each rank, with a thread for each lane of the record. */
#include "bench.h"
#include "model/plan.h"

#include <inttypes.h>

typedef struct trace {
    const dt_run *run;                     /* borrowed */
    const dt_ring *ring;                   /* [DT_LANES] the record */
    int64_t first, last;                   /* steps of this start, from 1 */
    int64_t from[DT_LANES], end[DT_LANES]; /* events of the record */
    bool over, lost;
    char file[PATH_MAX];
    dt_comm_clock of[]; /* [world] */
} trace;

/* ---- As text ------------------------------------------------------------------------------ */

static const char *const collective_name[DT_COLLECTIVES] = {DT_COLLECTIVE_LIST(DT_NAME_OF)};
/* The lane's name; those of its events by `what`, or one for all; what their `size` is. */
static const struct {
    const char *lane, *const *names, *name, *size;
} rows[DT_LANES] = {[DT_LANE_STEP] = {"steps", NULL, "step", "step"},
                    [DT_LANE_PHASE] = {"phases", dt_activity_word, NULL, NULL},
                    [DT_LANE_LAYER] = {"layers", NULL, NULL, NULL},
                    [DT_LANE_WAIT] = {"with other ranks", collective_name, NULL, "bytes"},
                    [DT_LANE_BUCKET] = {"oldest bucket under way", NULL, "bucket", "bytes"},
                    [DT_LANE_WRITER] = {"writer of checkpoints", NULL, "checkpoint", "step"}};

static void put_name(FILE *f, const dt_plan *plan, int lane, int what)
{
    static const char *const clocked[DT_CLOCKED] = {"forward", "backward", "weight gradient",
                                                    "statistics of the group", "exchange"};

    if (lane != DT_LANE_LAYER) {
        fputs(rows[lane].names ? rows[lane].names[what] : rows[lane].name, f);
        return;
    }
    const dt_step *s = &plan->step[what / DT_CLOCKED];
    fprintf(f, "%s %s", s->node->name[0] ? s->node->name : dt_step_title(s),
            clocked[what % DT_CLOCKED]);
}

/* Microseconds with all digits of a nanosecond. */
#define US "%" PRId64 ".%03d"
#define NS(t) (t) / 1000, (int)((t) % 1000)

/* whom: in DT_LANE_WAIT, the rank for which the others waited. */
static void put_event(FILE *f, const trace *t, int rank, int lane, const dt_event *e, int whom)
{
    fputs(",\n{\"name\":\"", f);
    put_name(f, t->run->contexts.plan[0], lane, e->what);
    fprintf(f, "\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":" US ",\"dur\":" US, rank, lane + 1,
            NS(e->began + t->of[rank].ahead), NS(e->ended - e->began));
    if (rows[lane].size)
        fprintf(f, ",\"args\":{\"%s\":%" PRIu64, rows[lane].size, e->size);
    if (lane == DT_LANE_WAIT && e->what != DT_IN_statistics)
        fprintf(f, ",\"for\":%d", whom);
    fputs(rows[lane].size ? "}}" : "}", f);
}

static void put_head(FILE *f, trace *t)
{
    for (int r = 0; r < t->run->comm->world; r++) {
        dt_comm_clock *of = &t->of[r];
        dt_log_shown(of->host);
        of->host[strcspn(of->host, "\"\\")] = '\0';
        fprintf(f,
                "%s\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,"
                "\"args\":{\"name\":\"rank %d on %s\",\"clock_bound_us\":" US "}}",
                r ? "," : "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", r, r, of->host,
                NS(of->bound));
        for (int lane = 0; lane < DT_LANES; lane++)
            fprintf(f,
                    ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,"
                    "\"args\":{\"name\":\"%s\"}}",
                    r, lane + 1, rows[lane].lane);
    }
}

/* ---- From all ranks ----------------------------------------------------------------------- */

/* In which rank's row event i of all [world][count] is the shortest: the others waited for it. */
static int find_last(const dt_event *all, int64_t count, int world, int64_t i)
{
    int last = 0;

    for (int r = 1; r < world; r++) {
        const dt_event *a = &all[r * count + i], *b = &all[last * count + i];
        last = a->ended - a->began < b->ended - b->began ? r : last;
    }
    return last;
}

/* f: NULL but on rank 0. */
static dt_status put_lane(const trace *t, FILE *f, int lane)
{
    dt_comm *c = t->run->comm;
    const int world = c->world, here = c->rank == 0 ? world : 0;
    int64_t most = t->end[lane] - t->from[lane];
    dt_event *all = NULL; /* [here][most], then this rank's [most] */

    DT_TRY(dt_comm_max_i64(c, &most, 1));
    dt_status st = dt_calloc(&all, (size_t)((here + 1) * most + 1), sizeof *all, "the trace");
    DT_GO(st, dt_comm_agree(c, st), out);
    dt_event *mine = all + here * most;
    for (int64_t i = t->from[lane]; i < t->end[lane]; i++)
        mine[i - t->from[lane]] = t->ring[lane].at[i % DT_RECORD_EVENTS];
    DT_GO(st, dt_comm_gather(c, mine, all, (size_t)most * sizeof *mine), out);
    for (int64_t i = 0; f && i < world * most; i++)
        if (all[i].ended > 0)
            put_event(f, t, (int)(i / most), lane, &all[i],
                      lane == DT_LANE_WAIT ? find_last(all, most, world, i % most) : 0);
out:
    free(all);
    return st;
}

/* That the file cannot be written is a warning. */
static dt_status write_file(trace *t)
{
    dt_comm *c = t->run->comm;
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = c->rank == 0 ? open_memstream(&text, &bytes) : NULL;
    dt_status st = dt_comm_clocks(c, t->of);

    if (f)
        put_head(f, t);
    for (int lane = 0; st == DT_OK && lane < DT_LANES; lane++)
        st = put_lane(t, f, lane);
    const bool fits = st != DT_NOMEM; /* alike on all ranks */
    const bool ended = f && fprintf(f, "\n]}\n") > 0, closed = f && fclose(f) == 0;
    const bool whole = fits && ended && closed;
    st = fits ? st : DT_OK;
    if (st == DT_OK && c->rank == 0 &&
        (!whole || dt_outfile_put(&DT_TARGET(t->file), text, bytes, NULL) != DT_OK)) {
        dt_warn("there is no trace: %s", whole ? dt_fail_text() : "no memory for it");
        dt_fail_clear();
    }
    free(text);
    return st;
}

/* After the last step of the range the file is written, whole or not at all. */
static dt_status trace_between(void *state, int64_t done, bool over)
{
    const int64_t room = DT_RECORD_EVENTS - 64; /* some are added meanwhile */
    trace *t = state;

    if (t->over)
        return DT_OK;
    t->over = over || done == t->last;
    for (int lane = 0; lane < DT_LANES; lane++) {
        t->end[lane] = t->ring[lane].count;
        if (done < t->first)
            t->from[lane] = t->end[lane];
        t->lost = t->lost || t->end[lane] - t->from[lane] > room;
        t->from[lane] = DT_MAX(t->from[lane], t->end[lane] - room);
    }
    if ((t->lost && t->over) || (over && done < t->first))
        dt_warn("--trace %s: %s", t->run->o.trace,
                t->lost ? "the record is too small for these, and lacks the first of them"
                        : "the run ended before, and the trace is empty");
    return t->over ? write_file(t) : DT_OK;
}

static dt_status check_name(const char *file)
{
    if (!dt_path_ends(file, ".json"))
        return dt_fail(DT_USAGE, "--trace %s: traces end in .json", file);
    DT_TRY(dt_target_check(&DT_TARGET(file)));
    return dt_parents_make(file);
}

static dt_status trace_ready(void **state, const dt_run *r)
{
    const size_t world = (size_t)r->comm->world;
    const dt_option_form form = dt_option_meaning(&dt_trace_syntax, r->o.trace);
    trace *t = NULL;

    if (!r->o.trace[0])
        return DT_OK;
    const dt_status st = dt_calloc(&t, 1, sizeof *t + world * sizeof(dt_comm_clock), "the trace");
    *state = t;
    DT_TRY(dt_comm_agree(r->comm, st));
    t->ring = dt_record_keep();
    t->run = r;
    t->first = form.trace.steps[0];
    t->last = form.trace.steps[1];
    snprintf(t->file, sizeof t->file, "%.*s", form.trace.file, r->o.trace);
    return dt_comm_agree(r->comm, r->comm->rank == 0 ? check_name(t->file) : DT_OK);
}

static void trace_close(void *state, int code)
{
    (void)code;
    free(state);
}

const dt_run_observer dt_trace = {
    .options = " trace", .ready = trace_ready, .between = trace_between, .close = trace_close};
