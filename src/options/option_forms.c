/* option_forms.c - texts of options that have a form: --bn, --save-every, --milestones, --flip. */
#include "option_forms.h"

#include <math.h>

/* ---- Reading: false, and the outcome is anything ---------------------------------------- */

static bool read_bn(const char *text, int64_t shards, int64_t *group)
{
    static const char prefix[] = "group:";
    const char *end;
    int64_t n = 0;

    *group = strcmp(text, "node") == 0 ? -1 : strcmp(text, "sync") == 0 ? shards : 0;
    if (*group != 0 || strcmp(text, "local") == 0)
        return true;
    if (strncmp(text, prefix, sizeof prefix - 1) != 0 ||
        !dt_whole_parse(text + sizeof prefix - 1, &end, &n) || *end != '\0' || n < 1)
        return false;
    *group = n < shards ? n : shards;
    return true;
}

static bool read_save_every(const char *text, int64_t *steps, double *seconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } table[] = {{"s", 1}, {"m", 60}, {"h", 3600}};
    const char *end;
    double x;

    *steps = 0;
    *seconds = 0;
    if (!dt_real_parse(text, &end, &x) || x < 0 || x >= 1e12)
        return false;
    if (*end == '\0' && x == floor(x)) {
        *steps = (int64_t)x;
        return true;
    }
    for (size_t i = 0; i < DT_COUNT_OF(table); i++)
        if (strcmp(end, table[i].unit) == 0 && x > 0) {
            *seconds = x * table[i].seconds;
            return true;
        }
    return false;
}

static bool read_milestones(const char *at, double fraction[DT_MAX_MILESTONES], int *count)
{
    for (*count = 0; *at; ++*count) {
        const char *end = at;
        double x = 0;
        if (*count == DT_MAX_MILESTONES || !dt_real_parse(at, &end, &x) || x < 0 || x > 1)
            return false;
        const bool comma = *end == ',' && end[1] != '\0';
        if (*end && !comma)
            return false;
        fraction[*count] = x;
        at = comma ? end + 1 : end;
    }
    return true;
}

/* The field up to the next ':' or the end; false: there is none, or it is too long. */
static bool next_field(const char **at, char *out, size_t size)
{
    const size_t n = strcspn(*at, ":");

    if (n == 0 || n >= size)
        return false;
    memcpy(out, *at, n);
    out[n] = '\0';
    *at += n + ((*at)[n] == ':');
    return true;
}

static bool next_number(const char **at, int64_t low, int64_t high, int64_t *out)
{
    char text[32];
    const char *end;

    return next_field(at, text, sizeof text) && dt_whole_parse(text, &end, out) && *end == '\0' &&
           *out >= low && *out <= high;
}

const char *const dt_flip_name[DT_FLIP_COUNT] = {
#define X(name) #name,
    DT_FLIP_LIST(X)
#undef X
};

/* The top bit of a float32's fraction (in bf16 that of the second number): changes a number
 * by a quarter to a half of it, so that nothing overflows and training goes on unnoticed. */
enum { FLIP_BIT = 22, FLIP_BITS = 32 };

static bool read_flip(const char *at, dt_flip_form *f)
{
    char what[32];
    int kind = 0;

    *f = (dt_flip_form){.bit = FLIP_BIT};
    if (!at[0])
        return true;
    if (!next_field(&at, what, sizeof what))
        return false;
    while (kind < DT_FLIP_COUNT && strcmp(what, dt_flip_name[kind]) != 0)
        kind++;
    f->what = (dt_flip_what)kind;
    return kind < DT_FLIP_COUNT && next_number(&at, 0, INT64_MAX, &f->rank) &&
           next_number(&at, 1, INT64_MAX, &f->step) &&
           next_field(&at, f->tensor, sizeof f->tensor) &&
           (!*at || next_number(&at, 0, FLIP_BITS - 1, &f->bit)) && !*at;
}

/* ---- What is wanted --------------------------------------------------------------------- */

static bool bn_fits(const char *text)
{
    int64_t group;
    return read_bn(text, 1, &group);
}

static bool save_every_fits(const char *text)
{
    int64_t steps;
    double seconds;
    return read_save_every(text, &steps, &seconds);
}

static bool milestones_fit(const char *text)
{
    double fraction[DT_MAX_MILESTONES];
    int count;
    return read_milestones(text, fraction, &count);
}

static bool flip_fits(const char *text)
{
    dt_flip_form f;
    return read_flip(text, &f);
}

#define FLIP_WORDS DT_FLIP_LIST(DT_WORD)
static const dt_option_form forms[] = {
    {"bn", bn_fits,
     "local (each shard's own statistics), sync (all shards), node (the shards of a node) or "
     "group:N with N >= 1 (N neighbouring shards)"},
    {"save_every", save_every_fits,
     "a number of steps, or a time like 30s, 10m or 2h; 0 for never"},
    {"milestones", milestones_fit,
     "fractions of the run from 0 to 1, at most 32, such as 0.5,0.75"},
    {"flip", flip_fits,
     "WHAT:RANK:STEP:TENSOR[:BIT], where WHAT is one of" FLIP_WORDS ", RANK counts from 0, STEP "
     "counts from 1 and BIT is below 32, such as weight:0:50:features.0.weight"},
};

const dt_option_form *dt_option_form_of(const char *name)
{
    for (size_t i = 0; i < DT_COUNT_OF(forms); i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    return NULL;
}

/* ---- For those who go by them ------------------------------------------------------------- */

static dt_status form_refused(const char *name, const char *text)
{
    return dt_fail(DT_CONFIG, "'%s' is no value for %s, want %s", text, name,
                   dt_option_form_of(name)->want);
}

dt_status dt_bn_parse(const char *text, int64_t shards, int64_t *group)
{
    return read_bn(text, shards, group) ? DT_OK : form_refused("bn", text);
}

dt_status dt_save_every_parse(const char *text, int64_t *steps, double *seconds)
{
    return read_save_every(text, steps, seconds) ? DT_OK : form_refused("save_every", text);
}

dt_status dt_milestones_parse(const char *text, double fraction[DT_MAX_MILESTONES], int *count)
{
    return read_milestones(text, fraction, count) ? DT_OK : form_refused("milestones", text);
}

dt_status dt_flip_parse(const char *text, dt_flip_form *f)
{
    return read_flip(text, f) ? DT_OK : form_refused("flip", text);
}
