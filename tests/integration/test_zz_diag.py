import json
from collections import Counter
from tests.integration.test_isolation import *
from tests.integration.test_isolation import run, _continues

def test_diag(run):
    c=Counter(); ex={}
    for q in run.asked:
        if not q.answer: continue
        s=json.dumps(q.answer)
        for m in set(__import__("re").findall(r'"asked as": "(m\d+)"', s)):
            if m != q.event["metadata"]["asked as"]:
                c["foreign metadata", q.answer["retrieval_stage"]]+=1; ex.setdefault(q.answer["retrieval_stage"], (q.event, q.answer["pool"]["query"]))
        if q.answer["retrieval_stage"]=="semantic_cache":
            o=run.origin(q); c["sem other text", q.event.get("text")!=o.event.get("text"), q.event.get("recipe")]+=1
            c["sem warnings", str(q.answer["warnings"])]+=1
        if q.given is not None and _continues(q) and run.denial(q) is None:
            c["page after", q.given.answer["retrieval_stage"], q.dead]+=1
        if q.answer["removed_by_firewall"]: c["removed"]+=1
    print(); [print(k,v) for k,v in c.items()]; print(ex)
