/* table.c - where the parts of the table lie, and a rank's place in words. */
#include "table.h"

static size_t rows_at(void)
{
    return dt_align(sizeof(dt_table_head), _Alignof(dt_table_row));
}

size_t dt_table_bytes(int world, int names)
{
    return rows_at() + (size_t)world * sizeof(dt_table_row) + (size_t)names * DT_TABLE_NAME;
}

dt_table dt_table_of(void *memory, int world)
{
    char *at = memory;
    dt_table_row *row = (dt_table_row *)(void *)(at + rows_at());

    return (dt_table){.head = memory, .row = row, .name = (char *)(row + world)};
}

void dt_table_boot(char boot[DT_TABLE_BOOT])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    boot[0] = '\0';
    if (!f)
        return;
    if (!fgets(boot, DT_TABLE_BOOT, f))
        boot[0] = '\0';
    boot[strcspn(boot, "\n")] = '\0';
    fclose(f);
}

void dt_table_place(const dt_table *t, int rank, char *out, size_t room)
{
    const dt_place *p = &t->row[rank].place;
    const int phase = dt_seen(p->phase), layer = dt_seen(p->layer);
    const long long step = (long long)dt_seen(p->step);
    const char *text = phase >= 0 && phase < DT_PLACE_COUNT ? dt_place_text[phase] : "?";

    if (layer >= 0 && layer < t->head->names && phase != DT_AT_test) /* its plan has others */
        snprintf(out, room, "%s, %.*s of step %lld", text, DT_TABLE_NAME - 1,
                 t->name + (size_t)layer * DT_TABLE_NAME, step);
    else if (step == 0 || phase == DT_AT_begin)
        snprintf(out, room, "%s", text);
    else if (phase == DT_AT_exchange)
        snprintf(out, room, "%s of step %lld, bucket %lld", text, step,
                 (long long)dt_seen(p->slice) + 1);
    else
        snprintf(out, room, "%s %s step %lld", text,
                 phase == DT_AT_save || phase == DT_AT_test ? "after" : "of", step);
}
