/* extra.c - the observer and the commands of extra/proof. */
#include "proof.h"
#include "train/observer.h"

/* clang-format off */
static const dt_command commands[] = {
    {.name = "certify", .help = "RUN: its chain of results as a file that anybody can check (--out)",
     .lead = dt_certify, .operands = "RUN, or --check CERTIFICATE", .least = 1, .most = 1},
    {.name = "replay", .help = "RUN or CERTIFICATE: repeat epochs of the run, and compare every bit",
     .run = dt_replay_epochs, .operands = "RUN|CERTIFICATE [--epochs LIST | --random K]",
     .least = 1, .most = 1, .options = " data threads exchange strategy init", .own = "epochs",
     .computes = true, .models = true},
};
/* clang-format on */

void dt_extra_proof(void)
{
    dt_commands_add(commands, DT_COUNT_OF(commands));
    dt_observer_add(&dt_chain);
}
