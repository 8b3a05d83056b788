#include "ir/base/errors.h"
#include "kernels_ref/kernels.h"

namespace kiln::reference {

#define KILN_PENDING(name) \
  void name(Call&) { throw_caller(ErrorCode::Unsupported, "the reference kernel is missing"); }
KILN_PENDING(attention)
KILN_PENDING(linear_attention)
KILN_PENDING(rnn)
KILN_PENDING(gru)
KILN_PENDING(lstm)
KILN_PENDING(multi_head_attention)
KILN_PENDING(group_query_attention)

}  // namespace kiln::reference
