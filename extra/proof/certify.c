/* certify.c - dtrain certify: a run's chain as one file, and its check. */
#include "proof.h"

static json_t *certificate_of(const dt_proof *p)
{
    json_t *links = json_array();

    for (const dt_link *l = p->link; l < p->link + p->links; l++)
        json_array_append_new(links, json_pack("{s:s, s:s, s:s, s:s}", "before", l->before, "link",
                                               l->link, "state", l->state, "record", l->record));
    return json_pack("{s:s, s:o}", "format", DT_CERTIFICATE, "links", links);
}

static dt_status write_certificate(const dt_proof *p, const char *path)
{
    json_t *j = certificate_of(p);
    char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
    const dt_target target = DT_TARGET(path);
    dt_status st = DT_OK;

    json_decref(j);
    if (!text)
        st = dt_fail(DT_NOMEM, "no memory for a certificate");
    else if (!path[0])
        puts(text);
    else
        st = dt_outfile_put(&target, text, strlen(text), NULL);
    free(text);
    return st;
}

/* What is consistent can still be forged: only replay tells. */
dt_status dt_certify(const dt_options *o, const char *const *path, size_t count)
{
    char summary[300];
    dt_proof p;

    (void)count;
    dt_status st = dt_proof_open(&p, path[0]);
    if (st == DT_OK)
        st = dt_proof_holds(&p);
    if (st == DT_OK && !o->check)
        st = write_certificate(&p, o->out);
    if (st == DT_OK && (o->check || o->out[0]))
        printf("%s%s\nlast link %s\n", o->check ? "consistent: " : "",
               dt_proof_summary(&p, summary), p.link[p.links - 1].link);
    dt_proof_close(&p);
    return st;
}
