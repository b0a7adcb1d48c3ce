/* launcher.h - launchers of ranks, a row for each; base.h includes it. */
#ifndef DT_BASE_LAUNCHER_H
#define DT_BASE_LAUNCHER_H
#include <stdbool.h>

/* Whether its variables are a launch, the weaker first: inherited from anything; of a batch
 * system's task, which may be a shell; of a rank that an mpirun has started; typed by the user. */
typedef enum dt_launch_strength { DT_INHERITED, DT_TASK, DT_MPIRUN, DT_TYPED } dt_launch_strength;

/* What mpirun reads from the environment: always; if --interface or --agent is given, that; where
 * hosts have met. */
typedef enum dt_launch_when { DT_ALWAYS, DT_INTERFACE, DT_AGENT, DT_MET, DT_WHENS } dt_launch_when;
typedef struct dt_launch_variable {
    dt_launch_when when;
    const char *name, *value; /* value NULL: what was given */
} dt_launch_variable;

typedef struct dt_launcher {
    dt_launch_strength strength;
    const char *size, *rank; /* variables: how many ranks, which of them; "": there is none */
    const char *sign;        /* a variable that all its ranks have, and nothing else; NULL: none */
    bool wires;              /* MPI starts by it */
    const char *remedy;      /* where ranks do not find each other; "": its size says nothing */

    /* Of one that dtrain starts; else library is NULL. Lists have a space before each word. */
    const char *library;      /* the first word of its MPI's version text */
    const char *parents;      /* what the processes are called that start ranks */
    const char *hosts, *file; /* options; file NULL: its own files are others, hosts are named */
    const char *export;       /* likewise, of a variable; NULL: ranks get them all */
    const char *yields;       /* a setting by which ranks that wait leave their core; or NULL */
    int ends;                 /* the signal to it that ends its ranks at once */
    bool bare;    /* of a rank that a signal has ended its code is the signal, without 128 */
    bool daemons; /* started by an agent of ours: hosts need no ssh; with files in TMPDIR */
    const dt_launch_variable *variables; /* up to one without a name */
} dt_launcher;

/* The stronger ones first, up to one without a size. Of launchers the first that is set counts:
 * ranks of Open MPI's mpirun also see the variables of what started its daemons. */
extern const dt_launcher dt_launchers[];

/* Whose mpirun belongs to the MPI library that says this of itself; Open MPI's, if unknown. */
const dt_launcher *dt_launcher_of(const char *library);
/* The mpirun that has started this process as a rank; NULL: none has. */
const dt_launcher *dt_launcher_mpirun(void);
#endif
