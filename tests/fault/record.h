/* record.h - the log that recorder.c writes and replay.c reads: records back to back,
 * each followed by path, other path and data, without terminators. */
#ifndef RECORD_H
#define RECORD_H
#include "shim.h"

enum { RECORD_MARK = SHIM_CALLS, RECORD_MAGIC = 0x44524543 };

typedef struct record {
    uint32_t magic, call; /* shim_call, or RECORD_MARK: data went to stdout */
    uint32_t path_bytes, other_bytes;
    uint64_t data_bytes;
    int64_t offset;         /* as in shim_op */
    uint32_t made, emptied; /* as in shim_op */
} record;
#endif
