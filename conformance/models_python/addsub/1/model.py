import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a, b = (pb.get_input_tensor_by_name(request, f"INPUT{i}").as_numpy() for i in (0, 1))
            outputs = [pb.Tensor("OUTPUT0", a + b), pb.Tensor("OUTPUT1", a - b)]
            responses.append(pb.InferenceResponse(outputs))
        return responses
