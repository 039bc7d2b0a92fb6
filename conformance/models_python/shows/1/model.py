import json

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(r) for r in requests]

    def _answer(self, request):
        seen = {
            "id": request.request_id(),
            "correlation_id": request.correlation_id(),
            "flags": request.flags(),
            "timeout": request.timeout(),
            "parameters": json.loads(request.parameters()),
            "inputs": {t.name(): t.as_numpy().tolist() for t in request.inputs()},
            "outputs": sorted(request.requested_output_names()),
        }
        text = json.dumps(seen, sort_keys=True)
        return pb.InferenceResponse([pb.Tensor("OUTPUT0", np.array([text], dtype=object))])
