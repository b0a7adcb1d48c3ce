/* strategy.c - which operations several ranks compute together: words PATTERN=out and
 * PATTERN=batch, which is not cut. Convolutions and linear layers are named, the others follow
 * them. */
#include "split.h"

#include <fnmatch.h>

enum { MOST_PATTERNS = 256, WORD_CHARS = 512 };

/* Whether the pattern fits, of which the first {a,b} is tried with each word in its place; *left
 * counts down to 0: there would be more to try. */
static bool pattern_fits(const char *pattern, const char *name, int *left)
{
    const char *open = strchr(pattern, '{'), *close = open ? strchr(open, '}') : NULL;
    char one[WORD_CHARS];

    if (!close)
        return strcmp(pattern, "all") == 0 || fnmatch(pattern, name, 0) == 0;
    for (const char *word = open + 1; word <= close && *left > 0; --*left) {
        const int length = (int)strcspn(word, ",}");
        snprintf(one, sizeof one, "%.*s%.*s%s", (int)(open - pattern), pattern, length, word,
                 close + 1);
        if (pattern_fits(one, name, left))
            return true;
        word += length + 1;
    }
    return false;
}

static dt_status no_operation(const dt_net *net, const char *pattern)
{
    const dt_node *n = net->own->node;
    size_t best = 0;

    for (size_t i = 1; i < net->ops; i++)
        if (dt_edits(pattern, n[i].name) < dt_edits(pattern, n[best].name))
            best = i;
    const bool few = dt_edits_few(pattern, n[best].name);
    return dt_fail(DT_CONFIG, "'%s' is no operation of %s%s%s%s `dtrain plan` lists them", pattern,
                   net->spec.net, few ? "; did you mean " : ";", few ? n[best].name : "",
                   few ? "?" : "");
}

dt_status dt_strategy_find(const dt_net *net, const char *pattern, bool *fits)
{
    const dt_node *follower = NULL;
    bool any = false;

    for (size_t i = 0; i < net->ops; i++) {
        const dt_node *n = &net->own->node[i];
        int left = MOST_PATTERNS;
        const bool hit = pattern_fits(pattern, n->name, &left);
        if (left <= 0)
            return dt_fail(DT_CONFIG, "'%s': its {} make more than %d patterns; use fewer", pattern,
                           MOST_PATTERNS);
        fits[i] = hit && n->op->weights;
        any = any || fits[i];
        if (hit && !fits[i])
            follower = n;
    }
    if (any)
        return DT_OK;
    if (!follower)
        return no_operation(net, pattern);
    return dt_fail(DT_CONFIG,
                   "'%s' is a %s, which follows its input; name a convolution or linear layer: "
                   "`dtrain plan` lists them",
                   follower->name, follower->op->name);
}

/* `word` loses what stands behind its pattern. */
static dt_status cut_word(const dt_net *net, char *word, bool *cut)
{
    bool fits[DT_MAX_NODES];
    char *is = strrchr(word, '=');
    const bool out = is && strcmp(is, "=out") == 0;

    if (!out && !(is && strcmp(is, "=batch") == 0))
        return dt_fail(DT_CONFIG,
                       "strategy '%s': want OPERATION=out, or OPERATION=batch, which is not cut; "
                       "all=out cuts every convolution and linear layer",
                       word);
    *is = '\0';
    const dt_status st = dt_strategy_find(net, word, fits);
    if (st != DT_OK)
        return dt_fail_place(st, "strategy: ");
    for (size_t i = 0; i < net->ops; i++)
        cut[i] = fits[i] ? out : cut[i];
    return DT_OK;
}

/* Operations without sums over channels follow their first input. */
static void cut_followers(const dt_net *net, bool *cut)
{
    bool value[DT_MAX_NODES + 1] = {false};

    for (size_t i = 0; i < net->ops; i++) {
        const dt_node *n = &net->own->node[i];
        cut[i] = n->op->weights ? cut[i] : value[n->in[0]];
        value[n->out] = cut[i];
    }
}

dt_status dt_strategy_cuts(const dt_net *net, const char *strategy, bool *cut)
{
    const char *text = strategy ? strategy : "";

    memset(cut, 0, net->ops * sizeof *cut);
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        char word[WORD_CHARS];
        const size_t length = strcspn(text, " ");
        if (length >= sizeof word)
            return dt_fail(DT_CONFIG, "strategy: a word of %zu characters, at most %zu", length,
                           sizeof word - 1);
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        DT_TRY(cut_word(net, word, cut));
        text += length;
    }
    cut_followers(net, cut);
    return DT_OK;
}

/* What stands before or in place of a strategy's words: one of MindSpore's parallel modes. */
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
