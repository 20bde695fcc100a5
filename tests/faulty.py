"""A producer whose user dies by what nobody foresaw."""


class UnforeseenError(Exception):
    pass


class FaultyProducer:
    def send(self, _request):
        raise UnforeseenError
