/* resume.c - whether a checkpoint belongs to the run that the options describe. */
#include "session.h"

#include <stdio.h>
#include <sys/stat.h>

#include "store/store.h"

void dt_bits_class(const dt_run *r, char text[DT_BITS_CLASS_CHARS])
{
    size_t at = 0;

    at += (size_t)snprintf(text, DT_BITS_CLASS_CHARS, "%s on %s", dt_dtype_name(r->precision),
                           dt_isa_name(dt_run_isa(r)));
    for (const dt_field *f = dt_library_versions(); f->name && at < DT_BITS_CLASS_CHARS; f++)
        at += (size_t)snprintf(text + at, DT_BITS_CLASS_CHARS - at, ", %s %s", f->name, f->value);
}

/* The lengths that a run may be given anew: without a schedule over the whole run, steps
 * already done are the same steps in a longer or shorter one. */
static bool changes_run(const dt_option_row *row, const dt_options *o)
{
    if (row->scope == DT_SCOPE_LENGTH)
        return strcmp(o->schedule, "constant") != 0;
    return row->scope == DT_SCOPE_RESULT;
}

/* What the checkpoint was saved with. A version that did not know the option did what is now
 * its default. */
static dt_status option_then(const dt_run *r, const dt_checkpoint *c, const dt_option_row *row,
                             char then[DT_OPTION_CHARS])
{
    dt_options defaults;
    char key[80];

    snprintf(key, sizeof key, "options.%s", row->name);
    if (dt_checkpoint_says(c, key))
        return dt_checkpoint_text(c, key, then, DT_OPTION_CHARS);
    dt_options_init(&defaults);
    dt_options_resolve(&defaults, r->net); /* as those of the run are */
    dt_option_text(row, &defaults, then, DT_OPTION_CHARS);
    dt_note("  %s: the checkpoint does not say; taken as '%s'", row->name, then);
    return DT_OK;
}

static void note_difference(const char *name, const char *then, const char *now, bool matters)
{
    dt_note("  %s: the checkpoint has '%s', now '%s'%s", name, then, now,
            matters ? " (changes the run)" : "");
}

/* One line per option that differs; whether any of them changes the run. */
static dt_status compare_options(const dt_run *r, const dt_checkpoint *c, bool *changed)
{
    for (size_t i = 0; i < dt_option_count; i++) {
        const dt_option_row *row = &dt_option_table[i];
        char then[DT_OPTION_CHARS], now[DT_OPTION_CHARS];
        if (row->scope >= DT_SCOPE_HERE)
            continue;
        DT_TRY(option_then(r, c, row, then));
        dt_option_text(row, &r->o, now, sizeof now);
        if (strcmp(then, now) == 0)
            continue;
        const bool matters = changes_run(row, &r->o);
        *changed = *changed || matters;
        note_difference(row->name, then, now, matters);
    }
    return DT_OK;
}

static dt_status compare_text(const dt_checkpoint *c, const char *key, const char *now,
                              bool matters, bool *differs)
{
    char then[DT_OPTION_CHARS];

    DT_TRY(dt_checkpoint_text(c, key, then, sizeof then));
    *differs = strcmp(then, now) != 0;
    if (*differs)
        note_difference(key, then, now, matters);
    return DT_OK;
}

static dt_status compare_run(const dt_run *r, const char *path, const dt_checkpoint *c,
                             bool *other_class)
{
    char data[DT_DIGEST_CHARS], class[DT_BITS_CLASS_CHARS];
    bool options = false, other_data = false;

    dt_digest_text(dt_source_digest(r->source), data);
    dt_bits_class(r, class);
    DT_TRY(compare_options(r, c, &options));
    DT_TRY(compare_text(c, "data_digest", data, true, &other_data));
    DT_TRY(compare_text(c, "class", class, false, other_class));
    if ((options || other_data) && !r->o.resume_force)
        return dt_fail(DT_CONFIG,
                       "checkpoint %s is of another run: the differences marked "
                       "above may change its result; take them back, choose another --out, or "
                       "accept them with --resume-force",
                       path);
    return DT_OK;
}

void dt_resume_warn(const dt_run *r, bool other_class)
{
    if (other_class)
        dt_warn("another build, library or instruction set: the run goes on, but its bits may "
                "differ from those of an undisturbed run");
    if (!dt_exchange_exact(r->exchange))
        dt_warn("exchange %s is inexact: the bits depend on where the run was interrupted and "
                "on the number of ranks",
                dt_exchange_name(r->exchange));
}

dt_status dt_resume_find(const dt_run *r, const char *folder, char path[PATH_MAX],
                         dt_checkpoint **c, bool *other_class)
{
    const char *from = r->o.resume;

    path[0] = '\0';
    *c = NULL;
    *other_class = false;
    if (strcmp(from, "never") == 0)
        return DT_OK;
    const bool any = strcmp(from, "auto") == 0;
    DT_TRY(dt_checkpoint_find(any ? folder : from, path));
    if (path[0]) {
        DT_TRY(dt_checkpoint_open(c, path));
        return compare_run(r, path, *c, other_class);
    }
    if (!any)
        return dt_fail(DT_NOINPUT, "--resume %s: there is no valid checkpoint", from);
    return DT_OK;
}

dt_status dt_resume_options(const dt_options *o, char path[PATH_MAX])
{
    const bool any = strcmp(o->resume, "auto") == 0;
    const char *folder = any ? o->out : o->resume;
    char newest[PATH_MAX];
    struct stat info;

    path[0] = '\0';
    if (strcmp(o->resume, "never") == 0 || !folder[0] || (any && !dt_path_exists(folder)))
        return DT_OK;
    if (stat(folder, &info) == 0 && !S_ISDIR(info.st_mode))
        return dt_fail(DT_NOINPUT,
                       "--resume %s: this is a file; give a run folder or a checkpoint's "
                       "(--init starts from a model file)",
                       folder);
    DT_TRY(dt_path_join(path, folder, "options.yaml"));
    if (dt_path_exists(path))
        return DT_OK;
    path[0] = '\0';
    DT_TRY(dt_checkpoint_find(folder, newest));
    return newest[0] ? dt_path_join(path, newest, "options.yaml") : DT_OK;
}
