# The gRPC door's part of room serve: its sources, and the generated code of the messages that are not
# inference (protobuf is seen here and nowhere else in the room).
find_package(Protobuf REQUIRED)
set(STOKER_GRPC_SOURCES
  grpc/control.cc
  grpc/grpc_door.cc
  grpc/infer_call.cc
  grpc/infer_parameters.cc
  grpc/infer_reader.cc
  grpc/infer_stream.cc
  grpc/infer_writer.cc
  grpc/information.cc
  grpc/message_call.cc
  grpc/methods.cc
  grpc/prepared_infer.cc
  grpc/typed_contents.cc
  grpc/wire.cc)

function(stoker_grpc_messages target name)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
  set(proto ${CMAKE_CURRENT_SOURCE_DIR}/grpc/${name}.proto)
  file(MAKE_DIRECTORY ${generated})
  add_custom_command(
    OUTPUT ${generated}/${name}.pb.cc ${generated}/${name}.pb.h
    COMMAND protobuf::protoc --cpp_out=${generated} -I${CMAKE_CURRENT_SOURCE_DIR}/grpc ${proto}
    DEPENDS ${proto}
    COMMENT "Generating ${name}.pb")
  add_library(${target} OBJECT ${generated}/${name}.pb.cc)
  target_include_directories(${target} SYSTEM PUBLIC ${generated})
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf)
  target_compile_options(${target} PRIVATE -w)
endfunction()

# Link stoker_inference_proto (LIBS of the room) wherever STOKER_GRPC_SOURCES are compiled.
stoker_grpc_messages(stoker_inference_proto inference)
set(STOKER_GRPC_TESTS
  grpc/control_test.cc
  grpc/infer_differential_test.cc
  grpc/infer_reader_test.cc
  grpc/infer_stream_test.cc
  grpc/infer_writer_test.cc
  grpc/methods_test.cc
  grpc/wire_test.cc)
if(STOKER_TESTS)
  stoker_grpc_messages(stoker_infer_testing_proto infer_testing)
endif()
