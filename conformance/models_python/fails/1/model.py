import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        words = [pb.get_input_tensor_by_name(r, "INPUT0").as_numpy()[0].decode() for r in requests]
        if "raise" in words:
            raise RuntimeError("told to fail")
        if "none" in words:
            return []
        return [self._answer(w) for w in words]

    def _answer(self, word):
        if word == "ok":
            return pb.InferenceResponse([pb.Tensor("OUTPUT0", np.array([b"ok"], dtype=object))])
        code = getattr(pb.TritonError, word, None)
        error = pb.TritonError("told to fail") if code is None else pb.TritonError("told to fail", code)
        return pb.InferenceResponse(error=error)
