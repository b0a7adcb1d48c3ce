/* costs.h - what a step costs with layers whole or cut, measured before a run begins; private to
 * src/train. */
#ifndef DT_COSTS_H
#define DT_COSTS_H
#include "run.h"
#include "search/search.h"

/* node [DT_SEARCH_NODES] = the images, the network's operations and the loss of a plan in which
 * nothing is cut, without seconds. scale: images of a shard for one of the plan's. Local. */
void dt_costs_graph(const dt_net *net, const dt_plan *plan, double scale, dt_dtype type,
                    dt_search_node *node);
/* What a step costs this rank where groups of `parts` ranks cut layers: node [DT_SEARCH_NODES] and
 * c become those of a search, *bytes the memory that it takes, about. First for 1 part, where the
 * graph is made, then with the same node for others. r has its options, network and data, and
 * nothing else. The first rank of a machine measures, others may. Agreed. Collective. */
dt_status dt_costs_measure(dt_run *r, int parts, dt_search_node *node, dt_search_costs *c,
                           double *bytes) DT_MUST_CHECK;

#endif
