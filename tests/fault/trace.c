/* trace.c - runs a program and holds it at every system call that changes something below a
 * folder: to record the calls, or to make one of them fail.
 *
 *   fault_trace record ROOT LOG PROGRAM...
 *   fault_trace fail ROOT CALL:N:ERROR[+] FIRED PROGRAM...
 *
 * record: LOG gets a line for each call that succeeded, and for what goes to standard output, in
 * the order of execution: call, path, other path, offset, bytes of data, whether the file was
 * made, whether it was emptied, between tabs; the data follow. With DROP_FSYNC=n the n-th sync
 * (from 1) is neither performed nor recorded, and reports success: the program as it would be
 * without it.
 * fail: the N-th CALL (from 1; the names are in the table below) returns ERROR, such as ENOSPC;
 * or does half of its work, SHORT; or is where the program is killed, KILL. "+": so do all that
 * follow. FIRED gets a line each time.
 *
 * Threads and children are traced, too. One followed call runs at a time, so the order of the
 * log is that of the execution. The exit code is the program's, or 128 and its signal. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <linux/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* Which arguments name a file: a folder's descriptor and a name in it, or a descriptor alone
 * (name NO). CWD: names are relative to the working folder. */
enum { NO = -1, CWD = -2 };
typedef struct row {
    long number;
    const char *call;
    int folder, name;
    int folder2, name2; /* name2 0: there is no second file */
} row;

static const row rows[] = {
    {SYS_open, "open", CWD, 0, 0, 0},
    {SYS_openat, "open", 0, 1, 0, 0},
    {SYS_write, "write", 0, NO, 0, 0},
    {SYS_pwrite64, "write", 0, NO, 0, 0},
    {SYS_ftruncate, "ftruncate", 0, NO, 0, 0},
    {SYS_fsync, "fsync", 0, NO, 0, 0},
    {SYS_fdatasync, "fsync", 0, NO, 0, 0},
    {SYS_close, "close", 0, NO, 0, 0},
    {SYS_rename, "rename", CWD, 0, CWD, 1},
    {SYS_renameat, "rename", 0, 1, 2, 3},
    {SYS_renameat2, "rename", 0, 1, 2, 3},
    {SYS_unlink, "unlink", CWD, 0, 0, 0},
    {SYS_unlinkat, "unlink", 0, 1, 0, 0},
    {SYS_rmdir, "rmdir", CWD, 0, 0, 0},
    {SYS_mkdir, "mkdir", CWD, 0, 0, 0},
    {SYS_mkdirat, "mkdir", 0, 1, 0, 0},
    {SYS_flock, "flock", 0, NO, 0, 0}, /* changes nothing: for `fail` alone */
    /* These change files, too, but the replayer has no model of them. */
    {SYS_creat, "foreign", CWD, 0, 0, 0},    {SYS_openat2, "foreign", 0, 1, 0, 0},
    {SYS_truncate, "foreign", CWD, 0, 0, 0}, {SYS_fallocate, "foreign", 0, NO, 0, 0},
    {SYS_link, "foreign", CWD, 1, 0, 0},     {SYS_linkat, "foreign", 2, 3, 0, 0},
    {SYS_symlink, "foreign", CWD, 1, 0, 0},  {SYS_symlinkat, "foreign", 1, 2, 0, 0},
    {SYS_writev, "foreign", 0, NO, 0, 0},    {SYS_pwritev, "foreign", 0, NO, 0, 0},
    {SYS_pwritev2, "foreign", 0, NO, 0, 0},  {SYS_syncfs, "foreign", 0, NO, 0, 0},
    {SYS_sendfile, "foreign", 0, NO, 0, 0},  {SYS_copy_file_range, "foreign", 2, NO, 0, 0},
    {SYS_mmap, "foreign", 4, NO, 0, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

typedef struct call {
    pid_t thread;
    const row *row;
    const char *name; /* the row's, or what it turned out to be */
    uint64_t arg[6];
    char path[PATH_MAX], other[PATH_MAX]; /* below the root; "" is the root itself */
    bool made, emptied;                   /* open: the file was not there; it had content */
    bool printed;                         /* write: to standard output */
} call;

static char root[PATH_MAX];
static FILE *record_log;
static long drop, syncs;
static struct {
    char call[32];
    long n, seen;
    int error; /* an errno, SHORT or KILL */
    bool sticky;
    const char *fired;
} fault;
enum { SHORT = -1, KILL = -2 };

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "fault_trace: %s: %s\n", what, strerror(errno));
    exit(98);
}

/* ---- What a call is about ------------------------------------------------------------------ */

static size_t read_memory(pid_t thread, uint64_t address, void *to, size_t bytes)
{
    char name[64];

    snprintf(name, sizeof name, "/proc/%d/mem", thread);
    const int fd = open(name, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : pread(fd, to, bytes, (off_t)address);
    if (fd >= 0)
        close(fd);
    return n < 0 ? 0 : (size_t)n;
}

/* An absolute path becomes one below the root, in place. The file of the places of ranks is left
 * out: it is written through a mapping, and no power cut is to keep it. */
static bool below_root(char path[PATH_MAX])
{
    const size_t n = strlen(root);
    const char *name = strrchr(path, '/');

    if (strncmp(path, root, n) != 0 || (path[n] && path[n] != '/') ||
        (name && strcmp(name, "/progress") == 0))
        return false;
    const size_t skip = n + (path[n] == '/');
    memmove(path, path + skip, strlen(path + skip) + 1);
    return true;
}

/* The absolute path of an open descriptor, or of the working folder. A file that has no name any
 * more is in no state after a power cut. */
static bool descriptor_path(pid_t thread, int fd, char path[PATH_MAX])
{
    char link[64];

    if (fd == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/%d/cwd", thread);
    else
        snprintf(link, sizeof link, "/proc/%d/fd/%d", thread, fd);
    const ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    return n > 0 && !strstr(path, " (deleted)");
}

/* The path below the root of a name in a folder. Links in the folder part are followed, the last
 * part is taken as it stands. */
static bool file_path(const call *c, int folder, int name, char path[PATH_MAX])
{
    char text[PATH_MAX] = "", base[PATH_MAX], whole[2 * PATH_MAX];
    const int fd = folder == CWD ? AT_FDCWD : (int)c->arg[folder];

    if (name == NO)
        return fd >= 0 && descriptor_path(c->thread, fd, path) && below_root(path);
    read_memory(c->thread, c->arg[name], text, sizeof text - 1);
    if (strncmp(text, "/proc/self/", 11) == 0)
        snprintf(whole, sizeof whole, "/proc/%d/%s", c->thread, text + 11);
    else if (text[0] == '/')
        snprintf(whole, sizeof whole, "%s", text);
    else if (descriptor_path(c->thread, fd, base))
        snprintf(whole, sizeof whole, "%s/%s", base, text);
    else
        return false;
    for (size_t n = strlen(whole); n > 1 && whole[n - 1] == '/'; n--)
        whole[n - 1] = '\0';
    char *last = strrchr(whole, '/');
    *last++ = '\0';
    if (!realpath(whole, path) || strlen(path) + strlen(last) + 2 > PATH_MAX)
        return false;
    strcat(strcat(path, "/"), last);
    return below_root(path);
}

/* What an open will do to the file. */
static void look_at_open(call *c)
{
    char whole[2 * PATH_MAX];
    struct stat info;
    const int flags = (int)c->arg[c->row->name + 1];

    snprintf(whole, sizeof whole, "%s/%s", root, c->path);
    const bool there = stat(whole, &info) == 0;
    c->made = !there && (flags & O_CREAT);
    c->emptied = there && (flags & O_ACCMODE) != O_RDONLY && (flags & O_TRUNC);
    if ((flags & O_TMPFILE) == O_TMPFILE)
        c->name = "foreign";
    else if (flags & O_CREAT)
        c->name = "create";
}

/* Whether the call is one to follow: it concerns the root, or standard output. */
static bool understand(call *c, pid_t thread, const struct ptrace_syscall_info *info)
{
    size_t k = 0;

    while (rows[k].number != (long)info->seccomp.nr)
        k++;
    *c = (call){.thread = thread, .row = &rows[k], .name = rows[k].call};
    memcpy(c->arg, info->seccomp.args, sizeof c->arg);
    if (c->row->number == SYS_mmap && (c->arg[3] & MAP_TYPE) == MAP_PRIVATE)
        return false; /* the most frequent call that changes no file */
    const bool in = file_path(c, c->row->folder, c->row->name, c->path);
    if (c->row->name2) {
        const bool to = file_path(c, c->row->folder2, c->row->name2, c->other);
        if (in != to || (c->row->number == SYS_renameat2 && (c->arg[4] & ~1ul)))
            c->name = "foreign"; /* content from elsewhere, or an exchange */
        return in || to;
    }
    if (!in) {
        c->path[0] = '\0';
        return c->printed = c->row->number == SYS_write && c->arg[0] == STDOUT_FILENO;
    }
    if (strcmp(c->name, "open") == 0)
        look_at_open(c);
    if (c->row->number == SYS_unlinkat && (c->arg[2] & AT_REMOVEDIR))
        c->name = "rmdir";
    return c->row->number != SYS_mmap || (c->arg[2] & PROT_WRITE);
}

/* ---- What is done about it ----------------------------------------------------------------- */

/* Where a write began that has written n bytes. */
static long long write_offset(const call *c, long n)
{
    char name[64];
    long long at = 0;

    if (c->row->number == SYS_pwrite64)
        return (long long)c->arg[3];
    snprintf(name, sizeof name, "/proc/%d/fdinfo/%d", c->thread, (int)c->arg[0]);
    FILE *f = fopen(name, "re");
    if (!f || fscanf(f, "pos: %lld", &at) != 1)
        die(name);
    fclose(f);
    return at - n;
}

static void record(const call *c, long result)
{
    const bool writes = strcmp(c->name, "write") == 0;
    const size_t size = writes ? (size_t)result : 0;
    long long offset = 0;

    if (strcmp(c->name, "close") == 0 || strcmp(c->name, "flock") == 0 ||
        (strcmp(c->name, "open") == 0 && !c->emptied))
        return; /* these change nothing */
    if (writes && !c->printed)
        offset = write_offset(c, result);
    else if (c->row->number == SYS_ftruncate)
        offset = (long long)c->arg[1];
    char *data = malloc(size + 1);
    if (!data || (size && read_memory(c->thread, c->arg[1], data, size) != size))
        die("memory of the program");
    fprintf(record_log, "%s\t%s\t%s\t%lld\t%zu\t%d\t%d\n", c->printed ? "print" : c->name, c->path,
            c->other, offset, size, c->made, c->emptied);
    fwrite(data, 1, size, record_log);
    free(data);
}

/* Whether this call is to go wrong. */
static bool is_due(const call *c)
{
    if (record_log)
        return drop && strcmp(c->name, "fsync") == 0 && ++syncs == drop;
    if (c->printed || strcmp(c->name, fault.call) != 0)
        return false;
    fault.seen++;
    if (fault.seen != fault.n && !(fault.sticky && fault.seen > fault.n))
        return false;
    FILE *f = fopen(fault.fired, "ae");
    if (!f || fprintf(f, "%s %ld\n", c->name, fault.seen) < 0 || fclose(f) != 0)
        die(fault.fired);
    return true;
}

/* Lets the thread, which is held where the call begins, run to where it ends; returns what waitpid
 * says of it then. A close that fails
 * has closed even so; what is skipped returns 0 or the fault's error. */
static int run_call(const call *c, int status)
{
    struct ptrace_syscall_info info;
    struct user_regs_struct regs;
    const bool due = is_due(c), fails = due && fault.error != SHORT;

    if (due && fault.error == KILL) {
        kill(c->thread, SIGKILL);
        return status;
    }
    ptrace(PTRACE_GETREGS, c->thread, 0, &regs);
    if (due && fault.error == SHORT && regs.rdx > 1)
        regs.rdx /= 2;
    if (fails && strcmp(c->name, "close") != 0)
        regs.orig_rax = ~0ull;
    if (due)
        ptrace(PTRACE_SETREGS, c->thread, 0, &regs);
    ptrace(PTRACE_SYSCALL, c->thread, 0, 0);
    if (waitpid(c->thread, &status, __WALL) < 0 || !WIFSTOPPED(status))
        return status;
    if (fails) {
        ptrace(PTRACE_GETREGS, c->thread, 0, &regs);
        regs.rax = 0ull - (unsigned long long)fault.error;
        ptrace(PTRACE_SETREGS, c->thread, 0, &regs);
    } else if (record_log) {
        ptrace(PTRACE_GET_SYSCALL_INFO, c->thread, sizeof info, &info);
        if (!info.exit.is_error)
            record(c, (long)info.exit.rval);
    }
    return status;
}

/* ---- The program --------------------------------------------------------------------------- */

/* From here on the calls of the table, and no others, stop this process and its children. */
static void stop_at_rows(void)
{
    struct sock_filter filter[ROWS + 3];
    const struct sock_fprog program = {ROWS + 3, filter};

    filter[0] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned k = 0; k < ROWS; k++)
        filter[k + 1] = (struct sock_filter)BPF_JUMP(
            BPF_JMP | BPF_JEQ | BPF_K, (unsigned)rows[k].number, (uint8_t)(ROWS - k), 0);
    filter[ROWS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[ROWS + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        die("cannot filter system calls");
}

static pid_t start(char **command)
{
    const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE |
                         PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC |
                         PTRACE_O_EXITKILL;
    const pid_t pid = fork();
    int status;

    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        stop_at_rows();
        execvp(command[0], command);
        die(command[0]);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, pid, 0, options) != 0 || ptrace(PTRACE_CONT, pid, 0, 0) != 0)
        die("cannot trace the program");
    return pid;
}

/* Until the last thread has ended. */
static int follow(pid_t program)
{
    static call c;
    struct ptrace_syscall_info info;
    int status, code = 98;

    for (pid_t thread; (thread = waitpid(-1, &status, __WALL)) > 0;) {
        int deliver = 0;
        if (WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_SECCOMP) {
            if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) > 0 &&
                understand(&c, thread, &info))
                status = run_call(&c, status);
        } else if (WIFSTOPPED(status) && status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP) {
            deliver = WSTOPSIG(status); /* SIGSTOP: where a new thread begins */
        }
        if (WIFSTOPPED(status))
            ptrace(PTRACE_CONT, thread, 0, deliver);
        else if (thread == program)
            code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return code;
}

static void read_fault(const char *text)
{
    char error[32];

    if (sscanf(text, "%31[^:]:%ld:%31[A-Z0-9]", fault.call, &fault.n, error) != 3)
        die(text);
    fault.sticky = text[strlen(text) - 1] == '+';
    fault.error = strcmp(error, "SHORT") == 0 ? SHORT : strcmp(error, "KILL") == 0 ? KILL : 0;
    for (int e = 1; e < 134 && fault.error == 0; e++)
        if (strerrorname_np(e) && strcmp(strerrorname_np(e), error) == 0)
            fault.error = e;
    if (fault.error == 0)
        die(text);
}

int main(int argc, char **argv)
{
    const bool records = argc > 4 && strcmp(argv[1], "record") == 0;
    const bool fails = argc > 5 && strcmp(argv[1], "fail") == 0;

    if (!records && !fails) {
        fputs("usage: fault_trace record ROOT LOG PROGRAM... | "
              "fail ROOT CALL:N:ERROR[+] FIRED PROGRAM...\n",
              stderr);
        return 98;
    }
    if (!realpath(argv[2], root)) /* it may come to be, and has no links in it */
        snprintf(root, sizeof root, "%s", argv[2]);
    if (root[0] != '/')
        die("ROOT is no absolute path");
    if (records) {
        const char *n = getenv("DROP_FSYNC");
        drop = n ? strtol(n, NULL, 10) : 0;
        record_log = fopen(argv[3], "we");
        if (!record_log)
            die(argv[3]);
    } else {
        read_fault(argv[3]);
        fault.fired = argv[4];
    }
    const int code = follow(start(argv + (records ? 4 : 5)));
    return record_log && fclose(record_log) != 0 ? 98 : code;
}
