/* state_json.h - a checkpoint whose state.json says something else, as its MANIFEST does. */
#ifndef DT_TEST_STATE_JSON_H
#define DT_TEST_STATE_JSON_H
#include "folder.h"

#include "store/checkpoint_internal.h"

/* What c->root is now, into the folder. */
static inline void state_json_put(const char *folder, dt_checkpoint *c)
{
    char manifest[DT_MANIFEST_CHARS], *text = json_dumps(c->root, JSON_INDENT(1));

    assert_non_null(text);
    c->manifest.file[DT_CHECKPOINT_STATE] =
        (dt_written){strlen(text), dt_hash_bytes(text, strlen(text))};
    folder_write(folder, "state.json", text, strlen(text));
    folder_write(folder, "MANIFEST", manifest, dt_manifest_text(&c->manifest, manifest));
    free(text);
}
#endif
