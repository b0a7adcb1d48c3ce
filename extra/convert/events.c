/* events.c - metrics.jsonl as an event file of TensorBoard: records of a length, its checksum, a
 * message, its checksum. The checksum is CRC-32C, turned and shifted by a constant, so that a
 * checksum of bytes that hold checksums tells something. */
#include "convert.h"
#include "formats.h"

#include <dirent.h>
#include <fnmatch.h>

/* ---- Records ------------------------------------------------------------------------ */

enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, SESSION_STATUS = 1, SESSION_START = 1 };

static uint32_t masked_crc(const void *data, size_t bytes)
{
    const uint8_t *b = data;
    uint32_t c = ~0u;

    for (size_t i = 0; i < bytes; i++) {
        c ^= b[i];
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
    }
    c = ~c;
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

static void put_record(dt_message *file, dt_message *event)
{
    const uint64_t length = event->bytes;
    const uint32_t of_length = masked_crc(&length, sizeof length);
    const uint32_t of_event = masked_crc(event->at, event->bytes);

    dt_message_raw(file, &length, sizeof length);
    dt_message_raw(file, &of_length, sizeof of_length);
    dt_message_raw(file, event->at, event->bytes);
    dt_message_raw(file, &of_event, sizeof of_event);
    file->failed = file->failed || event->failed;
    dt_message_release(event);
}

/* The version; and a start, at which readers drop what an older file of the folder had said. */
static void put_beginning(dt_message *file, double time)
{
    dt_message event = {.at = NULL}, session = {.at = NULL};

    dt_message_double(&event, EVENT_TIME, time);
    dt_message_text(&event, EVENT_VERSION, "brain.Event:2");
    put_record(file, &event);
    dt_message_double(&event, EVENT_TIME, time);
    dt_message_int(&session, SESSION_STATUS, SESSION_START);
    dt_message_inner(&event, EVENT_SESSION, &session);
    put_record(file, &event);
}

/* What of a line becomes which scalar; what is null there is none. */
static const struct {
    const char *kind, *key, *tag;
} scalars[] = {{"step", "loss", "loss/train"},
               {"step", "lr", "lr"},
               {"step", "images_per_s", "images_per_s"},
               {"epoch", "test_loss", "loss/test"},
               {"epoch", "test_accuracy", "accuracy/test"}};

static void put_line(dt_message *file, const json_t *line, double time, int64_t *step)
{
    const char *kind = json_string_value(json_object_get(line, "kind"));
    const json_t *at = json_object_get(line, "step"), *when = json_object_get(line, "time");
    dt_message event = {.at = NULL}, summary = {.at = NULL};

    *step = json_is_integer(at) ? json_integer_value(at) : *step;
    for (size_t i = 0; kind && i < DT_COUNT_OF(scalars); i++) {
        const json_t *x = json_object_get(line, scalars[i].key);
        dt_message value = {.at = NULL};
        if (strcmp(scalars[i].kind, kind) != 0 || !json_is_number(x))
            continue;
        dt_message_text(&value, VALUE_TAG, scalars[i].tag);
        dt_message_float(&value, VALUE_SIMPLE, (float)json_number_value(x));
        dt_message_inner(&summary, SUMMARY_VALUE, &value);
    }
    if (summary.bytes > 0) {
        dt_message_double(&event, EVENT_TIME,
                          json_is_number(when) ? json_number_value(when) : time);
        dt_message_int(&event, EVENT_STEP, *step);
        dt_message_inner(&event, EVENT_SUMMARY, &summary);
        put_record(file, &event);
    }
}

/* ---- metrics.jsonl ------------------------------------------------------------------- */

/* Lines [e->read, end) of the text as records; both are ends of lines. */
static dt_status put_lines(dt_events *e, const char *text, size_t end, dt_message *file)
{
    struct stat info = {0};

    if (stat(e->metrics, &info) != 0)
        return dt_fail(DT_NOINPUT, "%s: %s", e->metrics, strerror(errno));
    if (e->read == 0)
        put_beginning(file, (double)info.st_mtime);
    for (size_t at = e->read; at < end;) {
        const char *next = memchr(text + at, '\n', end - at);
        const size_t length = (size_t)(next - text) - at;
        json_t *line = json_loadb(text + at, length, 0, NULL);
        if (json_is_object(line)) /* others are no records */
            put_line(file, line, (double)info.st_mtime, &e->step);
        json_decref(line);
        at += length + 1;
    }
    return dt_message_check(file);
}

/* ---- Event files ------------------------------------------------------------------------ */

static int is_ours(const struct dirent *d)
{
    return fnmatch("events.out.tfevents.[0-9]*.dtrain", d->d_name, 0) == 0;
}

/* A whole new file takes the place of the last one, under a name that sorts after it. A TensorBoard
 * that runs has an older one open, and reads on in what sorts after it, unless it is gone: so older
 * ones stay, empty. While the new one is written, its name is none that is read. */
static dt_status events_replace(dt_events *e, const dt_message *records)
{
    struct dirent **old = NULL;
    char part[PATH_MAX], path[PATH_MAX], name[64];
    int64_t last = 0;
    const char *end;
    dt_status st = DT_OK;

    DT_TRY(dt_path_join(part, e->folder, "new"));
    DT_TRY(dt_parents_make(part));
    DT_TRY(dt_outfile_put(&DT_TARGET(part), records->at, records->bytes, NULL));
    const int count = scandir(e->folder, &old, is_ours, alphasort);
    if (count > 0 && !dt_whole_parse(old[count - 1]->d_name + 20, &end, &last))
        last = 0;
    snprintf(name, sizeof name, "events.out.tfevents.%010lld.dtrain", (long long)last + 1);
    st = dt_path_join(e->file, e->folder, name);
    if (st == DT_OK && rename(part, e->file) != 0)
        st = dt_fail(DT_IO, "cannot rename %s to %s: %s", part, e->file, strerror(errno));
    for (int i = 0; i < count; i++) {
        if (st == DT_OK && dt_path_join(path, e->folder, old[i]->d_name) == DT_OK)
            (void)!truncate(path, 0);
        free(old[i]);
    }
    free(old);
    return st;
}

static dt_status events_append(const dt_events *e, const dt_message *records)
{
    const int fd = open(e->file, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    const bool done = fd >= 0 && dt_append(fd, (const char *)records->at, records->bytes);
    const int error = errno;
    close(fd);
    return done ? DT_OK : dt_fail(DT_IO, "cannot append to %s: %s", e->file, strerror(error));
}

/* Lines that were taken back show in the hash of those that have been read. */
dt_status dt_events_update(dt_events *e)
{
    dt_message records = {.at = NULL};
    char *text = NULL;
    size_t length = 0;
    struct stat info;
    dt_status st = DT_OK;

    DT_TRY(dt_file_read(AT_FDCWD, e->metrics, (size_t)1 << 30, &text, &length));
    while (length > 0 && text[length - 1] != '\n')
        length--; /* this line is being written */
    const dt_digest before = dt_hash_bytes(text, DT_MIN(e->read, length));
    if (length < e->read || before.low != e->digest.low || before.high != e->digest.high)
        e->read = 0, e->step = 0;
    if (length == e->read && e->file[0])
        goto out;
    /* Another process may have replaced the file. */
    if (e->read > 0 && (lstat(e->file, &info) != 0 || (uint64_t)info.st_size != e->size))
        e->read = 0, e->step = 0;
    DT_GO(st, put_lines(e, text, length, &records), out);
    DT_GO(st, e->read == 0 ? events_replace(e, &records) : events_append(e, &records), out);
    e->size = records.bytes + (e->read > 0 ? e->size : 0);
    e->read = length;
    e->digest = dt_hash_bytes(text, length);

out:
    dt_message_release(&records);
    free(text);
    return st;
}
