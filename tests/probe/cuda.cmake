# The tests of probe/cuda: on a GPU, and of its machine code where there is a disassembler.
gpuinfer_test(cuda SOURCES cuda_test.cpp LIBRARIES gpuinfer::cuda LABELS gpu)

set(machine_code)
if(GPUINFER_HAVE_CUDA)
  get_target_property(images gpuinfer_cuda IMAGES)
  set(machine_code $<TARGET_FILE:gpuinfer_cuda> ${images})
endif()
add_test(NAME cuda_sass COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/cuda_sass_test.py" ${machine_code})
set_tests_properties(cuda_sass PROPERTIES SKIP_RETURN_CODE 77)
