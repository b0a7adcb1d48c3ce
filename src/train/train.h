/* train.h - where model, data and ranks meet; the public header of src/train. */
#ifndef DT_TRAIN_H
#define DT_TRAIN_H
#include "options/options.h"

/* The options.yaml of the run or checkpoint that --resume names. "": --resume is never, or there is
 * nothing to resume from yet. DT_NOINPUT: it names no run. Local. */
dt_status dt_resume_options(const dt_options *o, char path[PATH_MAX]) DT_MUST_CHECK;

/* Until dt_train has set up its run, there is nothing to save: SIGUSR1, SIGUSR2, SIGTERM, SIGINT
 * and SIGXCPU call `leave`, which prints the line and must end the process. Afterwards they are
 * requests to dt_train; SIGHUP is one from the start. Call this before MPI is started: signals then
 * wait until dt_signals_started. Local. */
void dt_signals_catch(void (*leave)(const char *line));
/* MPI is started: a signal that came meanwhile ends the process here. Local. */
void dt_signals_started(void);

/* Train: the run folder gets options.yaml, metrics.jsonl, progress, checkpoints and
 * model.safetensors. The same options on all ranks (checked). Collective. */
dt_status dt_train(dt_comm *c, const dt_options *o) DT_MUST_CHECK;
/* The file that --strategy @FILE names: o->strategy becomes its line of words, which is kept in
 * `line`, and other options that it names are set. DT_CONFIG. Local. */
dt_status dt_strategy_load(dt_options *o, char line[DT_OPTION_CHARS]) DT_MUST_CHECK;
/* OMP_NUM_THREADS, 0: not set, or libgomp has said what is wrong with it. Local. */
int dt_threads_asked(void);
/* Threads of a rank where --threads is auto: those, or its share of what its node's ranks may use
 * together, within its own mask and quota, at least 1. Local. */
int dt_threads_auto(const dt_comm *c);
/* Version, commit and build type. Local. */
const char *dt_build(void);
#endif
