"""A model that keeps the requests it gets."""


class Recorded:
    """Passes requests on to a model, and keeps them as `requests`: prompt, n and sampling."""

    def __init__(self, model):
        self.model, self.name, self.requests = model, model.name, []

    async def complete(self, prompt, n, sampling):
        self.requests.append((prompt, n, sampling))
        return await self.model.complete(prompt, n, sampling)
