/* modes.c - MindSpore's parallel modes, in front of a strategy's words. */
#include "split.h"

/* What stands before or in place of a strategy's words: a parallel mode. */
dt_status dt_mode_take(dt_options *o, int world)
{
    const int length = (int)strcspn(o->strategy, " ");
    const char *words = o->strategy + length + strspn(o->strategy + length, " ");
    char mode[32];

    snprintf(mode, sizeof mode, "%.*s", length, o->strategy);
    if (dt_words_have(" standalone stand_alone", mode) && world > 1)
        return dt_fail(
            DT_CONFIG,
            "--strategy %s: %d ranks would train apart, a network each; start one, or leave "
            "--strategy out: they train one network together",
            mode, world);
    if (dt_words_have(DT_MODES_CUT, mode) && !*words)
        return dt_fail(DT_CONFIG,
                       "--strategy %s wants the layers to cut: write --strategy all=out, or @FILE "
                       "(or auto, which finds them)",
                       mode);
    if (dt_words_have(DT_MODES_WHOLE, mode) && *words)
        return dt_fail(DT_CONFIG,
                       "--strategy %s cuts no layers, but '%.100s' behind it says which to cut: "
                       "leave one of them out",
                       mode, words);
    if (dt_words_have(DT_MODES, mode) && *words == '@')
        return dt_fail(DT_CONFIG,
                       "--strategy %s: a file has its mode inside: write 'parallel_mode: %s' into "
                       "it, and give --strategy %.100s",
                       o->strategy, mode, words);
    o->searches = o->searches || dt_words_have(DT_MODES_SEARCH, mode);
    if (dt_words_have(DT_MODES, mode))
        o->strategy = words;
    if (o->searches && o->replay_every)
        return dt_fail(DT_CONFIG, "--replay-every runs one shard alone, but with --strategy auto "
                                  "ranks may compute it together; leave one of them out");
    return DT_OK;
}
