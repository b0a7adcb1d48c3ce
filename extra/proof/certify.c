/* certify.c - dtrain certify: a run's chain as one file, and its check. */
#include "proof.h"

static dt_status write_certificate(const dt_proof *p, const char *path)
{
    json_t *links = json_array();
    dt_status st = DT_OK;

    for (const dt_link *l = p->link; l < p->link + p->links; l++)
        json_array_append_new(links, json_pack("{s:s, s:s, s:s, s:s}", "before", l->before, "link",
                                               l->link, "state", l->state, "record", l->record));
    json_t *j = json_pack("{s:s, s:o}", "format", DT_CERTIFICATE, "links", links);
    char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
    json_decref(j);
    if (!text)
        return dt_fail(DT_NOMEM, "no memory for a certificate");
    if (path[0])
        st = dt_outfile_put(&DT_TARGET(path), text, strlen(text), NULL);
    else
        puts(text);
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
