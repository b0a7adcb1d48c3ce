/* What options mean for the network, and what the program is made of. */
#include "run.h"

dt_status dt_options_net(const dt_options *o, int classes, dt_net_spec *spec)
{
    *spec = (dt_net_spec){.net = o->net, .variant = o->variant, .stem = o->stem,
                          .image_size = (int)o->image_size, .classes = classes,
                          .width_divisor = (int)o->width_divisor};
    return DT_OK;
}

const dt_field *dt_library_versions(void)
{
    static dt_field fields[8];
    size_t n = 0;

    for (const dt_field *f = dt_kernel_versions(); f->name; f++)
        fields[n++] = *f;
    fields[n++] = (dt_field){"MPI", dt_comm_version()};
    fields[n] = (dt_field){NULL, NULL};
    return fields;
}
