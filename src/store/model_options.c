/* model_options.c - what files say of options. */
#include "store.h"

#include <libgen.h>

/* A path of data is read again from other folders: here is where it was meant. */
dt_status dt_options_put(const dt_target *t, const dt_options *o, dt_written *w)
{
    dt_options from_all = *o;
    char *text = NULL, here[PATH_MAX], data[PATH_MAX];
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);

    if (o->data[0] != '/' && dt_path_exists(o->data) && getcwd(here, sizeof here)) {
        const int n = snprintf(data, sizeof data, "%s/./%s", here, o->data);
        /* else, as where YAML does not take the folder's name, it stays as given */
        if (n > 0 && (size_t)n < sizeof data &&
            dt_option_set(&dt_option_table[DT_ROW_data], &from_all, data, "data", DT_CONFIG) !=
                DT_OK)
            dt_fail_clear();
    }
    if (f)
        dt_options_yaml(f, &from_all);
    const bool good = f && !ferror(f);
    const dt_status st = (f && fclose(f) != 0) || !good
                             ? dt_fail(DT_NOMEM, "no memory for the text of %s", t->shown)
                             : dt_outfile_put(t, text, length, w);
    free(text);
    return st;
}

dt_status dt_options_from_model(const char *path, dt_options *o, dt_model_meta *meta)
{
    DT_TRY(dt_model_describe(path, meta));
    for (int i = 0; i < DT_META_KEYS; i++) {
        const dt_option_row *row = dt_option_find(dt_meta_key[i]);
        char place[PATH_MAX + 80];
        if (!meta->text[i][0] || o->given[row - dt_option_table])
            continue;
        snprintf(place, sizeof place, "%s, dtrain.%s", path, dt_meta_key[i]);
        DT_TRY(dt_option_set(row, o, meta->text[i], place, DT_FORMAT));
    }
    return DT_OK;
}

dt_status dt_options_read_model(dt_model_read *r, const char *path, dt_options *o,
                                dt_model_meta *meta)
{
    *r = (dt_model_read){.net = NULL};
    DT_TRY(dt_options_from_model(path, o, meta));
    const dt_net_spec spec = dt_options_net(o, 0);
    return dt_model_read_open(r, meta, &spec);
}

dt_status dt_model_options(const char *path, char out[PATH_MAX])
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof folder, "%s", path);
    DT_TRY(dt_path_join(out, dt_path_is_folder(path) ? path : dirname(folder), "options.yaml"));
    if (!dt_path_exists(out))
        out[0] = '\0';
    return DT_OK;
}

dt_model_file_opts dt_model_says(const dt_options *o, const dt_source_info *images, int64_t steps)
{
    return (dt_model_file_opts){.names = o->names,
                                .normalize = o->normalize,
                                .steps = steps,
                                .resize = o->resize,
                                .class_names = images ? images->class_names : NULL,
                                .height = images ? images->height : 0,
                                .width = images ? images->width : 0,
                                .logit_scale = o->logit_scale};
}
