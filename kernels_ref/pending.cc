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
KILN_PENDING(dft)
KILN_PENDING(stft)
KILN_PENDING(mel_weight_matrix)
KILN_PENDING(affine_grid)
KILN_PENDING(grid_sample)
KILN_PENDING(roi_align)
KILN_PENDING(max_roi_pool)
KILN_PENDING(max_unpool)
KILN_PENDING(col2im)
KILN_PENDING(deform_conv)
KILN_PENDING(center_crop_pad)
KILN_PENDING(einsum)
KILN_PENDING(det)
KILN_PENDING(unique)
KILN_PENDING(negative_log_likelihood_loss)
KILN_PENDING(tensor_scatter)
KILN_PENDING(bit_cast)
KILN_PENDING(random_normal)
KILN_PENDING(random_uniform)
KILN_PENDING(multinomial)
KILN_PENDING(multi_head_attention)
KILN_PENDING(group_query_attention)

}  // namespace kiln::reference
