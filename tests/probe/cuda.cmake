# The tests of probe/cuda: on a GPU, and of its machine code where there is a disassembler.
gpuinfer_test(cuda SOURCES cuda_test.cpp LIBRARIES gpuinfer::cuda LABELS gpu)

add_test(NAME cuda_sass COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/cuda_sass_test.py"
                                "$<$<BOOL:${GPUINFER_HAVE_CUDA}>:$<TARGET_FILE:gpuinfer_cuda>;$<TARGET_PROPERTY:gpuinfer_cuda,PLAY_BANK>>"
         COMMAND_EXPAND_LISTS)
set_tests_properties(cuda_sass PROPERTIES SKIP_RETURN_CODE 77)
