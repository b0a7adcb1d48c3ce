/* status.h - what a function returns, and the record of the first cause of a failure; a part of
 * base.h. */
#ifndef DT_STATUS_H
#define DT_STATUS_H

/* One row per status: name, exit code of the process, what the user reads.
 * 64 to 75 and 78 are codes of sysexits; 1, 110, 124-165 and 205 belong to mpirun, timeout, env. */
#define DT_STATUS_LIST(X)                                                                          \
    X(OK, 0, "success")                                                                            \
    X(DECLINED, 70, "not applicable here, ask the next one")                                       \
    X(USAGE, 64, "bad command line")                                                               \
    X(FORMAT, 65, "bad data: content is not what its format promises")                             \
    X(NOINPUT, 66, "missing or unreadable input")                                                  \
    X(BUG, 70, "internal error: please report it")                                                 \
    X(SHAPE, 70, "tensor shapes do not fit together")                                              \
    X(NOMEM, 71, "out of memory or another limit of the system")                                   \
    X(COMM, 71, "MPI call failed")                                                                 \
    X(CANTCREATE, 73, "cannot create output")                                                      \
    X(IO, 74, "input/output error")                                                                \
    X(PREEMPTED, 75, "stopped by a signal: start it again")                                        \
    X(MISMATCH, 76, "ranks disagree")                                                              \
    X(STALLED, 77, "a rank stood still for --stall-abort seconds")                                 \
    X(CONFIG, 78, "bad configuration")                                                             \
    X(UNSUPPORTED, 78, "valid, but this build or machine cannot do it")                            \
    X(NUMERIC, 79, "a loss or a number of the model is not finite")                                \
    X(CORRUPT, 80, "memory or arithmetic went wrong: a check found other bits")

typedef enum dt_status {
#define X(name, code, text) DT_##name,
    DT_STATUS_LIST(X)
#undef X
        DT_STATUS_COUNT
} dt_status;

#define DT_MUST_CHECK __attribute__((warn_unused_result))
#define DT_PRINTF(f, a) __attribute__((format(printf, f, a)))

int dt_status_exit_code(dt_status s);
const char *dt_status_text(dt_status s);

/* Record the first cause of a failure in this thread: file, place, value, remedy. Returns code. A
 * second call keeps the first record. Nothing is printed here: eight ranks that read the same bad
 * file print one message, by dt_comm_agree (dist.h) or main. */
dt_status dt_fail_at(const char *file, int line, dt_status code, const char *fmt, ...)
    DT_PRINTF(4, 5) DT_MUST_CHECK;
#define dt_fail(code, ...) dt_fail_at(__FILE__, __LINE__, code, __VA_ARGS__)

/* Put a place that only the caller knows in front of the recorded text: "a.txt:3: ". */
dt_status dt_fail_place(dt_status code, const char *fmt, ...) DT_PRINTF(2, 3) DT_MUST_CHECK;

/* The recorded text, "" if none; valid until the next dt_fail or dt_fail_clear. */
const char *dt_fail_text(void);
/* Forget the record: it is printed, or a fallback was taken. */
void dt_fail_clear(void);

/* Pass a failure on: who saw it first has recorded it. */
#define DT_TRY(call)                                                                               \
    do {                                                                                           \
        dt_status try_ = (call);                                                                   \
        if (try_ != DT_OK)                                                                         \
            return try_;                                                                           \
    } while (0)
#define DT_GO(st, call, label)                                                                     \
    do {                                                                                           \
        (st) = (call);                                                                             \
        if ((st) != DT_OK)                                                                         \
            goto label;                                                                            \
    } while (0)

#endif
