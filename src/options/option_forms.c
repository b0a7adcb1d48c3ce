/* option_forms.c - texts of options that have a form: --bn, --save-every and kin. */
#include "options.h"

#include <math.h>

static dt_status refused(const char *name, const char *text, const char *want)
{
    return dt_fail(DT_CONFIG, "'%s' is no value for %s, want %s", text, name, want);
}

dt_status dt_bn_parse(const char *text, dt_option_form *f)
{
    static const struct {
        const char *name;
        int64_t group;
    } words[] = {{"local", 0}, {"sync", INT64_MAX}, {"node", -1}};
    static const char prefix[] = "group:";
    const char *end;

    for (size_t i = 0; i < DT_COUNT_OF(words); i++)
        if (strcmp(text, words[i].name) == 0) {
            f->bn = words[i].group;
            return DT_OK;
        }
    if (strncmp(text, prefix, sizeof prefix - 1) == 0 &&
        dt_whole_parse(text + sizeof prefix - 1, &end, &f->bn) && *end == '\0' && f->bn > 0)
        return DT_OK;
    return refused("bn", text,
                   "local (each shard's own statistics), sync (all shards), node (the shards of a "
                   "node) or group:N with N >= 1 (N neighbouring shards)");
}

dt_status dt_save_every_parse(const char *text, dt_option_form *f)
{
    static const struct {
        const char *unit;
        double seconds;
    } table[] = {{"s", 1}, {"m", 60}, {"h", 3600}};
    const char *end;
    double x;

    f->save_every.steps = 0;
    f->save_every.seconds = 0;
    const bool number = dt_real_parse(text, &end, &x) && x >= 0 && x < 1e12;
    if (number && *end == '\0' && x == floor(x)) {
        f->save_every.steps = (int64_t)x;
        return DT_OK;
    }
    for (size_t i = 0; i < DT_COUNT_OF(table) && number && x > 0; i++)
        if (strcmp(end, table[i].unit) == 0) {
            f->save_every.seconds = x * table[i].seconds;
            return DT_OK;
        }
    return refused("save_every", text,
                   "a number of steps, or a time like 30s, 10m or 2h; 0 for never");
}

dt_status dt_trace_parse(const char *text, dt_option_form *f)
{
    const char *at = strstr(text, ".json@"), *end;
    int64_t *steps = f->trace.steps;

    f->trace.file = at ? (int)(at - text) + 5 : (int)strlen(text);
    steps[0] = 1, steps[1] = 20;
    if (!at || (dt_whole_parse(at + 6, &end, &steps[0]) && *end == ':' &&
                dt_whole_parse(end + 1, &end, &steps[1]) && *end == '\0' && steps[0] > 0 &&
                steps[0] <= steps[1]))
        return DT_OK;
    return refused("trace", text,
                   "FILE.json, or FILE.json@A:B with the first and the last step, from 1, such as "
                   "trace.json@1:20");
}

/* A word of `words`; one that is in `taking`, too, may have a number behind it: WORD:NUMBER. */
static bool read_worded(const char *text, const char *words, const char *taking, double low,
                        double high, dt_option_form *f)
{
    const char *end = text + strcspn(text, ":");
    double *x = &f->worded.number;
    const bool whole = (size_t)(end - text) < sizeof f->worded.word;

    snprintf(f->worded.word, sizeof f->worded.word, "%.*s", (int)(end - text), text);
    if (*end && dt_words_have(taking, f->worded.word) && !dt_real_parse(end + 1, &end, x))
        return false;
    return whole && dt_words_have(words, f->worded.word) && !*end && *x >= low && *x <= high;
}

dt_status dt_lr_scale_parse(const char *text, dt_option_form *f)
{
    f->worded.number = 256;
    if (read_worded(text, " none linear sqrt", " linear sqrt", 1, 1e8, f))
        return DT_OK;
    return refused("lr_scale", text,
                   "none, linear:N or sqrt:N, where --lr is for a global batch of N, 1 to 1e8");
}

dt_status dt_grad_compress_parse(const char *text, dt_option_form *f)
{
    static const char words[] = DT_COMPRESS_LIST(DT_WORD);

    f->worded.number = 0.001;
    if (read_worded(text, words, " 2bit", 1e-30, 1e6, f))
        return DT_OK;
    return refused("grad_compress", text, "none, bf16, 2bit or 2bit:T with T from 1e-30 to 1e6");
}

dt_status dt_stop_after_parse(const char *text, dt_option_form *f)
{
    if (dt_save_every_parse(text, f) == DT_OK && f->save_every.steps == 0)
        return DT_OK;
    dt_fail_clear();
    return refused("stop_after", text, "a time like 30s, 10m or 2h; 0 for never");
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

dt_status dt_milestones_parse(const char *text, dt_option_form *f)
{
    if (read_milestones(text, f->milestones.fraction, &f->milestones.count))
        return DT_OK;
    return refused("milestones", text,
                   "fractions of the run from 0 to 1, at most 32, such as 0.5,0.75");
}
