/* images.h - PNG and JPEG files: a kind of data source, and pictures that a trained model is asked
 * about; the public header of extra/images. Everything is Local. */
#ifndef DT_IMAGES_H
#define DT_IMAGES_H
#include "data/data.h"

void dt_extra_images(void);

/* Pictures for a trained model, in place of dt_source_open: all are test images. An operand is a
 * file, whatever its name, or a folder, below which all are taken that are named as images. A
 * picture's label is the class that has its folder's name; -1: none has, or a file was given.
 *   class_names  a JSON array, borrowed; where it does not name all classes, numbers do
 *   returns      DT_NOINPUT, DT_NOMEM
 * Loading it leaves out what cannot be read, with a line in the log for all of these but the last;
 * it fails where nothing is left. */
dt_status dt_source_open_pictures(dt_source **s, int classes, const char *class_names,
                                  const char *const *operand, size_t operands) DT_MUST_CHECK;
/* Once loaded: the path of test image i; and how the first one failed that was left out
 * (DT_NOINPUT, DT_IO, DT_FORMAT), with the last one's reason. */
const char *dt_source_picture(const dt_source *s, int64_t i);
dt_status dt_source_left_out(const dt_source *s) DT_MUST_CHECK;

#endif
