/* fingerprint.c - ranks are compared field by field, so that a difference has a name. */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>

enum { VALUE_CHARS = 256, MAX_FIELDS = 32 };

typedef struct field_list {
    dt_field field[MAX_FIELDS];
    char text[MAX_FIELDS][VALUE_CHARS];
    size_t count;
} field_list;

static void field_text(field_list *l, const char *name, const char *value)
{
    snprintf(l->text[l->count], VALUE_CHARS, "%s", value);
    l->field[l->count] = (dt_field){name, l->text[l->count]};
    l->count++;
}

static void field_digest(field_list *l, const char *name, dt_digest d)
{
    char text[DT_DIGEST_CHARS];
    dt_digest_text(d, text);
    field_text(l, name, text);
}

dt_status dt_fingerprint_run(dt_run *r)
{
    field_list l = {.count = 0};

    for (const dt_field *f = dt_library_versions(); f->name; f++)
        field_text(&l, f->name, f->value);
    field_text(&l, "instruction set", dt_isa_name(dt_run_isa(r)));
    field_text(&l, "precision", dt_dtype_name(r->precision));
    field_digest(&l, "data files", dt_source_manifest(r->source));
    field_digest(&l, "data content", dt_source_digest(r->source));
    for (int i = 0; i < DT_MAX_PLANS; i++)
        if (r->contexts.plan[i])
            field_digest(&l, "training plan", dt_plan_digest(r->contexts.plan[i]));
    for (int i = 0; i < 2; i++)
        if (r->test[i].plan)
            field_digest(&l, "evaluation plan", dt_plan_digest(r->test[i].plan));
    return dt_comm_same(r->comm, l.field, l.count);
}
