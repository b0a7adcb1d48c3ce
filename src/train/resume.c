/* resume.c - where a run begins: which checkpoint, and whether it belongs to the run that the
 * options describe. */
#include "session.h"

void dt_bits_class(const dt_run *r, char text[DT_BITS_CLASS_CHARS])
{
    snprintf(text, DT_BITS_CLASS_CHARS, "%s on %s, dtrain %s", dt_dtype_name(r->precision),
             dt_run_isa(r), dt_build());
}

/* ---- Does it belong to this run? ------------------------------------------------------------ */

/* One line if they differ, as checkpoints have texts. */
static bool note_difference(const char *name, const char *then, const char *now, bool matters)
{
    char plain[DT_OPTION_CHARS];

    if (strcmp(then ? then : "", dt_shown(now, plain)) == 0)
        return false;
    dt_note("  %s: the checkpoint has '%s', now '%s'%s", name, then ? then : "", plain,
            matters ? " (changes the run)" : "");
    return true;
}

/* A word with its number, which older checkpoints have apart; c: that checkpoint, NULL: there is
 * none, and the number is the usual one. */
static const char *with_number(const char *name, const char *text, const dt_checkpoint *c,
                               char buf[DT_OPTION_CHARS])
{
    const bool scale = strcmp(name, "lr_scale") == 0;
    const char *number = c ? dt_checkpoint_text(c, scale ? "lr_batch" : "grad_threshold") : NULL;

    if ((!scale && strcmp(name, "grad_compress") != 0) ||
        !dt_words_have(DT_WORDS_WITH_NUMBER, text))
        return text;
    snprintf(buf, DT_OPTION_CHARS, "%.40s:%.60s", text, number ? number : scale ? "256" : "0.001");
    return buf;
}

/* Those that change the run, or the others; whether there are any. */
static bool note_differences(const dt_run *r, const dt_checkpoint *c, bool matters)
{
    char now[DT_OPTION_CHARS], was[DT_OPTION_CHARS], data[DT_DIGEST_CHARS];
    char a[DT_OPTION_CHARS], b[DT_OPTION_CHARS];
    bool any = false;

    for (const dt_option_row *row = dt_option_table; row < dt_option_table + DT_OPTIONS; row++) {
        if (row->scope >= DT_SCOPE_HERE || dt_option_decides(row, &r->o) != matters ||
            row == &dt_option_table[DT_ROW_data]) /* data_digest says whether they are others */
            continue;
        const char *then = dt_checkpoint_text(c, row->name);
        if (!then) /* it was saved before there was this option */
            then = dt_shown(dt_option_text(row, NULL, now, sizeof now), was);
        dt_option_text(row, &r->o, now, sizeof now);
        any |= note_difference(row->name, with_number(row->name, then, c, a),
                               with_number(row->name, now, NULL, b), matters);
    }
    if (!matters)
        return any;
    dt_digest_text(dt_source_digest(r->source), data);
    return note_difference("data_digest", dt_checkpoint_text(c, "data_digest"), data, true) || any;
}

/* A refusal shows its causes alone. */
static dt_status compare_run(void *context, const dt_checkpoint *c)
{
    const dt_run *r = context;
    char class[DT_BITS_CLASS_CHARS];

    if (strncmp(r->o.grad_compress, "2bit", 4) == 0 && !r->o.resume_force)
        return dt_fail(DT_UNSUPPORTED,
                       "a run with --grad-compress 2bit cannot go on: the remainder of each "
                       "shard's gradient is in no checkpoint; --init %s/model.safetensors begins "
                       "with its weights, and --resume-force goes on with nothing left",
                       dt_checkpoint_path(c));
    if (note_differences(r, c, true) && !r->o.resume_force)
        return dt_fail(DT_CONFIG,
                       "checkpoint %s is of another run: the differences above may change its "
                       "result; take them back, choose another --out, or accept them with "
                       "--resume-force",
                       dt_checkpoint_path(c));
    note_differences(r, c, false);
    dt_bits_class(r, class);
    if (note_difference("class", dt_checkpoint_text(c, "class"), class, false))
        dt_warn("another build or instruction set: the bits may differ from those of an "
                "undisturbed run");
    if (!dt_exchange_exact(dt_run_exchange(r)))
        dt_warn("exchange %s is inexact: the bits depend on where the run was interrupted and "
                "on the number of ranks",
                dt_exchange_name(dt_run_exchange(r)));
    return DT_OK;
}

/* ---- Which one ------------------------------------------------------------------------------ */

/* A run goes on in its folder from its newest valid checkpoint alone: what is newer would tell of
 * another future. */
static dt_status check_newest(const dt_rundir *d, const char *given, const char *found)
{
    if (dt_path_same(given, d->path) || dt_path_same(given, found))
        return DT_OK;
    return dt_fail(DT_CANTCREATE,
                   "--resume %s: the newest valid checkpoint of its run folder is %s; to resume "
                   "from an older one, begin a new run folder with --out NEW",
                   given, found);
}

static dt_status find_none(const dt_rundir *d, const dt_run *r)
{
    struct stat info;

    if (d->resumed && fstatat(d->folder, "model.safetensors", &info, AT_SYMLINK_NOFOLLOW) == 0)
        return dt_fail(DT_CANTCREATE,
                       "run folder %s holds a finished model and no checkpoint to resume from; "
                       "choose another --out, and give --init %s/model.safetensors to begin with "
                       "its weights",
                       d->path, d->path);
    if (strcmp(r->o.resume, "auto") != 0)
        return dt_fail(DT_NOINPUT,
                       "--resume %s: there is no checkpoint; --out %s --resume auto begins at the "
                       "first step",
                       r->o.resume, d->path);
    return DT_OK;
}

dt_status dt_resume(dt_run *r, const dt_rundir *d, char path[PATH_MAX], dt_position *at)
{
    dt_snapshot into = dt_run_snapshot(r);
    const dt_query t = {.end = INT64_MAX, .take = compare_run, .into = &into, .context = r};
    const char *given = r->o.resume;

    path[0] = '\0';
    if (strcmp(given, "never") == 0)
        return DT_OK;
    const bool any = strcmp(given, "auto") == 0;
    DT_TRY(any || d->resumed ? dt_checkpoint_newest(d->folder, d->path, &t, path)
                             : dt_checkpoint_find(given, &t, path));
    if (!path[0])
        return find_none(d, r);
    *at = into.at;
    return any || !d->resumed ? DT_OK : check_newest(d, given, path);
}

dt_status dt_resume_options(const dt_options *o, char path[PATH_MAX])
{
    const bool any = strcmp(o->resume, "auto") == 0;
    const char *folder = any ? o->out : o->resume;
    struct stat info;

    path[0] = '\0';
    if (strcmp(o->resume, "never") == 0 || !folder[0] || (any && !dt_path_exists(folder)))
        return DT_OK;
    if (stat(folder, &info) != 0)
        return dt_fail(DT_NOINPUT, "--resume %s: %s", folder, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return dt_fail(DT_NOINPUT,
                       "--resume %s: this is a file; give a run folder or a checkpoint's "
                       "(--init starts from a model file)",
                       folder);
    DT_TRY(dt_path_join(path, folder, "options.yaml"));
    if (dt_path_exists(path))
        return DT_OK;
    path[0] = '\0';
    return any ? DT_OK
               : dt_fail(DT_NOINPUT,
                         "--resume %s: no options.yaml is there: give a run's folder, or one of "
                         "its checkpoints/step-...",
                         folder);
}
