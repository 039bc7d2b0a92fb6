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

set(proto ${CMAKE_CURRENT_LIST_DIR}/inference.proto)
set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${generated})
add_custom_command(
  OUTPUT ${generated}/inference.pb.cc ${generated}/inference.pb.h
  COMMAND protobuf::protoc --cpp_out=${generated} -I${CMAKE_CURRENT_LIST_DIR} ${proto}
  DEPENDS ${proto}
  COMMENT "Generating inference.pb")
add_library(stoker_inference_proto OBJECT ${generated}/inference.pb.cc)
target_include_directories(stoker_inference_proto SYSTEM PUBLIC ${generated})
target_link_libraries(stoker_inference_proto PUBLIC protobuf::libprotobuf)
target_compile_options(stoker_inference_proto PRIVATE -w)
# Link stoker_inference_proto (LIBS of the room) wherever STOKER_GRPC_SOURCES are compiled.
