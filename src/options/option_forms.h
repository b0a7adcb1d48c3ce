/* option_forms.h - texts of options that have a form; private to src/options. */
#ifndef DT_OPTION_FORMS_H
#define DT_OPTION_FORMS_H
#include "options.h"

typedef struct dt_option_form {
    const char *name; /* the option's */
    bool (*fits)(const char *text);
    const char *want;
} dt_option_form;
/* NULL: the option takes any text. */
const dt_option_form *dt_option_form_of(const char *name);

#endif
